"""What pald takes jobs to be owed: by accounts' weights, deadlines, prices; who is owed most starts first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.model import (
    Action,
    App,
    Apps,
    Decision,
    FairShares,
    Hint,
    Job,
    Knowledge,
    Lease,
    PoolRules,
    Reason,
    Request,
    Snapshot,
    Waits,
    neutral_scores,
)
from pal_slurm.policy import Circumstances, compose, plan
from pal_slurm.policy.entitlement.debts import NO_DEBTS
from pal_slurm.policy.entitlement.due_now import due_now
from pal_slurm.policy.entitlement.precedence import LEAST, MOST_ROWS, DueNow
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.policy.seams import entitlements
from pal_slurm.report.why import sentences, why_of
from pal_slurm.sim.clusters import parse_cluster
from tests.builders import NOW, leased, running, snapshot, usual

SLOW, FAST = "n1", "n2"
CLUSTER = parse_cluster("slow:1x2+fast:1x2")
APPS = Apps({name: App(name, "A", {"slow": slow, "fast": 1.0}) for name, slow in (("fussy", 10.0), ("easy", 1.1))})
KNOWS = Knowledge(neutral_scores(CLUSTER), APPS, PoolRules("ok"))
HALF = usual(0.5)  # of their limits
TREE = FairShares({"big": 0.75, "small": 0.25})


def asks(number: int, account: str = "", app: str | None = "easy", gpus: int = 1, /, **facts: Any) -> Job:
    told = {"partitions": ("gpu",), "time_limit_s": 36_000, "hint": Hint(app), "account": account, **facts}
    return leased(number, gpus, **told)


def owed(name: str, *jobs: Job, fair: FairShares = TREE, knows: Knowledge = KNOWS) -> DueNow:
    entitlement = entitlements.get(name)
    assert entitlement is not None
    return due_now(entitlement, snapshot(*jobs, cluster=CLUSTER), knows, fair, HALF)


def done(due: DueNow, *jobs: Job) -> float:
    return sum(due.rates[job.key] for job in jobs)


def test_accounts_get_their_parts_whatever_the_number_of_their_jobs() -> None:
    few, many = [asks(n, "big", "easy", 2) for n in (1, 2)], [asks(n, "small", "easy", 2) for n in range(3, 23)]
    due = owed("gavel/hierarchical", *few, *many)
    assert due.pools == ("slow", "fast")
    assert done(due, *few) == pytest.approx(3 * done(due, *many), rel=0.02)


def test_without_a_tree_all_accounts_count_the_same() -> None:
    few, many = [asks(1, "big", "easy", 2)], [asks(n, "small", "easy", 2) for n in range(2, 12)]
    one = leased(99, 2, partitions=("gpu",))  # of no account: its user stands for it
    due = owed("gavel/hierarchical", *few, *many, one, fair=FairShares())
    assert done(due, *few) == pytest.approx(done(due, *many))


def test_a_job_of_a_heavier_qos_is_owed_more_than_its_fellows() -> None:
    plain, urgent = [asks(n, "big") for n in range(1, 8)], asks(8, "big", qos="urgent")
    due = owed("gavel/hierarchical", *plain, urgent, fair=FairShares({"big": 1.0}, qos={"urgent": 2.0}))
    assert due.rates[urgent.key] == pytest.approx(2 * due.rates[plain[0].key], rel=0.01)


def test_a_job_with_a_deadline_is_owed_what_it_needs_to_be_in_time() -> None:
    jobs = [asks(n, "big", "fussy") for n in range(1, 9)]
    soon = replace(jobs[7], time_limit_s=7200)  # half of it is an hour of work
    due = owed("gavel/cost-slo", *jobs[:7], soon, fair=FairShares(deadlines={8: NOW + 4000.0}))
    assert HALF.of(soon).seconds == pytest.approx(3600, rel=0.01)
    assert due.rates[soon.key] == pytest.approx(HALF.of(soon).seconds / 4000, rel=1e-3)


def test_a_dear_model_is_owed_to_those_only_who_make_the_most_of_it() -> None:
    fussy, easy = asks(1, "big", "fussy"), asks(2, "big", "easy")
    dear = replace(KNOWS, pools=PoolRules("ok", billing={"slow": 1.0, "fast": 5.0}))
    due = owed("gavel/cost", fussy, easy, knows=dear)
    assert due.shares[fussy.key][1] == pytest.approx(1.0) and due.shares[easy.key] == pytest.approx((1.0, 0.0))


def decided(due: DueNow | None, *jobs: Job, now: float = NOW) -> Mapping[int, Decision]:
    busy = CLUSTER.gpu_free.copy()
    for job in jobs:
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            busy[CLUSTER.node_index[node], list(slots)] = False
    seen = snapshot(*jobs, cluster=replace(CLUSTER, gpu_free=busy), now=now)
    facts = Circumstances(due=due and due.at(seen, due.debts))
    return {d.job: d for d in plan(seen, KNOWS, compose("pal"), facts).decisions}


def test_who_is_owed_most_starts_first_whoever_came_first() -> None:
    jobs = [asks(n, "small", "easy", 2, submit=NOW - 1000, priority=9) for n in range(1, 6)]
    last = asks(6, "big", "easy", 2, submit=NOW - 900)
    assert decided(None, *jobs, last)[6].action is Action.WAIT
    made = decided(owed("gavel/hierarchical", *jobs, last), *jobs, last)
    assert made[6].action is Action.START and made[6].rank == 0
    assert sum(d.action is Action.START for d in made.values()) == 2  # nothing stays idle


WEEK = 7 * 86_400


def test_a_week_old_flood_of_forty_has_its_part_and_no_more_before_a_newcomer() -> None:
    """On 4 GPUs: the flood runs on the two that are its due, two are free, and the newcomer came a second ago."""
    many: dict[str, Any] = {"user": "many", "submit": NOW - WEEK, "priority": 9}
    runs = running(50, {SLOW: (0, 1)}, end=NOW + 9000, start=NOW - 60, account="lab", partitions=("gpu",), **many)
    flood = [asks(n, "lab", "easy", 1, **many) for n in range(1, 41)]
    few = [asks(n, "lab", "easy", 1, user="few", submit=NOW - 1) for n in (98, 99)]
    for name in ("hierarchical", "max-min", "finish-time", "cost-slo", "max-sum"):
        due = owed(f"gavel/{name}", runs, *flood, *few, fair=FairShares({"lab": 1.0}))
        made = decided(due, runs, *flood, *few)
        assert made[98].rank <= 1 and made[98].action is Action.START, name
    alike = DueNow("gavel/x", ("slow", "fast"), rates={job.key: 1.0 for job in (*flood, *few)},
                   gpus={("lab", "many"): 2.0, ("lab", "few"): 2.0})  # fmt: skip
    made = decided(alike, runs, *flood, *few)
    assert [made[n].action for n in (98, 99)] == [Action.START] * 2
    assert {made[job.id].action for job in flood} == {Action.WAIT}


def test_a_flood_that_runs_nothing_gets_one_gpu_before_the_newcomer_and_not_all() -> None:
    flood = [asks(n, "lab", "easy", 1, user="many", submit=NOW - WEEK) for n in range(1, 41)]
    few = [asks(n, "lab", "easy", 1, user="few", submit=NOW - 1) for n in (97, 98, 99)]
    due = owed("gavel/hierarchical", *flood, *few, fair=FairShares({"lab": 1.0}))
    starts = {n for n, d in decided(due, *flood, *few).items() if d.action is Action.START}
    assert len(starts) == 4 and 97 in starts
    several = {("lab", "many"): 2.0, ("lab", "few"): 2.0}
    starts = {n for n, d in decided(replace(due, gpus=several), *flood, *few).items() if d.action is Action.START}
    assert len(starts & {97, 98, 99}) == 2  # turn by turn, each his part


def test_an_array_takes_its_users_part_and_leaves_the_rest_to_a_newcomer() -> None:
    array = asks(1, "lab", array_id=1, array_tasks=tuple(range(40)), user="many", submit=NOW - WEEK)
    few = [asks(n, "lab", "easy", 1, user="few", submit=NOW - 1) for n in (97, 98)]
    due = owed("gavel/hierarchical", array, *few, fair=FairShares({"lab": 1.0}))
    due = replace(due, gpus={("lab", "many"): 2.0, ("lab", "few"): 2.0})
    seen = snapshot(array, *few, cluster=CLUSTER)
    made = plan(seen, KNOWS, compose("pal"), Circumstances(due=due.at(seen, NO_DEBTS))).decisions
    starts = sorted(d.job for d in made if d.action is Action.START)
    assert starts == [1, 1, 97, 98]
    alone = snapshot(array, cluster=CLUSTER)
    made = plan(alone, KNOWS, compose("pal"), Circumstances(due=due.at(alone, NO_DEBTS))).decisions
    assert sum(d.action is Action.START for d in made) == 4  # nobody else waits


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("facts", [{"shape": None}, {"hint": Hint("easy", off=True)}, {"reservation": "r"}])
def test_a_job_that_slurm_has_to_place_is_let_go_in_its_turn(facts: dict[str, Any], others: int) -> None:
    odd = asks(1, "lab", user="u", submit=NOW - 50, **facts)
    rest = [asks(2, "lab", user="v", submit=NOW - 5)][:others]
    due = owed("gavel/cost-slo", odd, *rest, fair=FairShares({"lab": 1.0}))
    assert decided(due, odd, *rest)[1].action is Action.PLAIN


def test_a_gpu_that_two_of_a_users_jobs_share_counts_once() -> None:
    pair = [running(n, {FAST: (0,)}, parts=((0,),), account="lab", partitions=("gpu",)) for n in (1, 2)]
    whole = running(3, {SLOW: (0, 1)}, account="lab", partitions=("gpu",))
    job = asks(4, "lab", user="u")
    due = DueNow("gavel/x", gpus={("lab", "u"): 4.0}).at(snapshot(*pair, whole, job, cluster=CLUSTER), NO_DEBTS)
    assert due.told(job, NOW).has == 3


@pytest.mark.parametrize("owed_gpus", [2.0, 2.0 + 1e-12])
def test_who_has_what_he_is_owed_has_it_to_the_last_digit_of_a_division_or_not(owed_gpus: float) -> None:
    job, other = asks(4, "lab", user="u", submit=NOW - 900), asks(5, "new", user="v", submit=NOW - 10)
    seen = snapshot(running(3, {SLOW: (0, 1)}, account="lab", user="u"), job, other, cluster=CLUSTER)
    due = DueNow("gavel/x", gpus={("lab", "u"): owed_gpus, ("new", "v"): 1.0}).at(seen, NO_DEBTS)
    places = due.places(compose("pal").order, ())
    assert places[other.id] < places[job.id] and places[job.id].tier > places[other.id].tier


def test_a_held_job_gathers_no_debt() -> None:
    """Held for a week, looked at each hour; then let go."""
    held = asks(1, "big", "easy", 2, submit=NOW - WEEK, why=Waits.HELD)
    debts = NO_DEBTS
    for hour in range(0, WEEK, 3600):
        debts = debts.after(snapshot(held, cluster=CLUSTER, now=NOW - WEEK + hour))
    free = replace(held, why=Waits.BEGIN)
    other = asks(2, "big", "easy", 2, submit=NOW - 300, user="v")
    due = DueNow("gavel/max-min", rates={free.key: 1.0, other.key: 1.0}).at(
        snapshot(free, other, cluster=CLUSTER), debts
    )
    assert due.owed_s(free, NOW) == 0.0 and due.owed_s(other, NOW) == 300.0
    later = due.at(snapshot(free, cluster=CLUSTER, now=NOW + 50), due.debts)
    assert later.owed_s(free, NOW + 50) == 50.0


@pytest.mark.parametrize(
    "kept",
    [
        {"why": Waits.HELD}, {"why": Waits.LIMIT}, {"why": Waits.BLOCKED}, {"why": Waits.NEVER},
        {"dependency": "afterok:9"},
    ],
    ids=lambda kept: next(iter(kept)) + str(next(iter(kept.values())))[:14],
)  # fmt: skip
def test_only_time_counts_in_which_a_job_could_have_started(kept: dict[str, Any]) -> None:
    job = asks(1, "big", submit=NOW - 5000)
    look: dict[int, Job] = {-5000: job, -4000: job, -3900: replace(job, **kept), -1000: replace(job, **kept), -900: job}
    debts = NO_DEBTS
    for at, seen in look.items():
        debts = debts.after(snapshot(seen, cluster=CLUSTER, now=NOW + at))
    assert NOW - debts.waits_since(job) == pytest.approx(1100 + 900)  # before, and since
    due = owed("gavel/max-min", replace(job, **kept), asks(2, "big"))
    assert job.key not in due.shares  # nor has it a part of what there is
    made = decided(due, replace(job, **kept), asks(2, "big"))
    assert made[2].rank == 0


def test_what_a_user_let_pass_by_itself_costs_his_large_job_nothing() -> None:
    """His large job came first; a small one of his that came later filled a hole."""
    large = asks(1, "big", "easy", 4, submit=NOW - 5000)
    small = running(2, {SLOW: (0,)}, start=NOW - 10, submit=NOW - 100, account="big", partitions=("gpu",))
    older = replace(small, submit=NOW - 9000)
    for ran, since in ((small, NOW - 5000), (older, NOW - 10)):
        debts = NO_DEBTS.after(snapshot(large, ran, cluster=CLUSTER))
        assert debts.in_line_since(large) == since
        assert debts.after(snapshot(large, cluster=CLUSTER, now=NOW + 5)).in_line_since(large) == since  # it ended


def test_a_flood_is_as_old_as_its_last_start_also_where_small_jobs_of_its_user_start_in_between() -> None:
    flood: dict[str, Any] = {"submit": NOW - WEEK, "account": "big"}
    waits = asks(1, "big", "easy", 4, submit=NOW - WEEK)
    of_flood = running(2, {SLOW: (0, 1)}, start=NOW - 90, **flood)
    small = [running(n, {FAST: (0,)}, start=NOW - 90 + n, submit=NOW - 200 + n, account="big") for n in (3, 4)]
    debts = NO_DEBTS
    for seen in ((of_flood,), (of_flood, small[0]), (small[0],), (*small,), ()):
        debts = debts.after(snapshot(waits, *seen, cluster=CLUSTER))
        assert debts.in_line_since(waits) == NOW - 90
    assert NO_DEBTS.after(snapshot(waits, *small, of_flood, cluster=CLUSTER)).in_line_since(waits) == NOW - 90
    again = memory_of(json.loads(json.dumps(Memory(debts=debts).plain())))
    assert again.debts.in_line_since(waits) == NOW - 90


def test_an_old_job_that_can_not_start_lends_its_age_to_none_that_is_claimed() -> None:
    """pal:by puts the one of yesterday before it, and no further."""
    whale = asks(1, "lab", "easy", 4, user="one", submit=NOW - WEEK)
    claimed = asks(2, "lab", "easy", user="one", submit=NOW - 10)
    other = asks(3, "lab", "easy", user="two", submit=NOW - 3600)
    rates = {job.key: 0.5 for job in (whale, claimed, other)}
    due = DueNow(
        "gavel/cost-slo", rates=rates, gpus={("lab", "one"): 2.0, ("lab", "two"): 2.0}, claims={claimed.key: 1e9}
    )
    places = due.at(snapshot(whale, claimed, other, cluster=CLUSTER), NO_DEBTS).places(compose("pal").order, ())
    assert places[other.id] < places[claimed.id] < places[whale.id]
    unclaimed = replace(due, claims={}).at(snapshot(whale, claimed, other, cluster=CLUSTER), NO_DEBTS)
    assert unclaimed.places(compose("pal").order, ())[whale.id] < places[other.id]


def test_debts_outlive_pald_and_what_is_no_debt_is_none() -> None:
    held = asks(1, "big", submit=NOW - 500, why=Waits.HELD)
    ran = running(2, {SLOW: (0,)}, start=NOW - 10, account="big")
    seen = snapshot(held, ran, cluster=CLUSTER)
    memory = plan(seen, KNOWS, compose("pal"), Circumstances(due=DueNow("gavel/cost").at(seen, NO_DEBTS))).memory
    assert memory.debts.waited == {held.key: 0.0} and memory.debts.served
    again = memory_of(json.loads(json.dumps(memory.plain())))
    assert again == memory
    wrongs: list[object] = [{"served": [[1, 2, 3, 4]]}, {"waited": [["x"]]}, {"since": [[1, 2, "x"]]}, {"at": "x"}, []]
    for wrong in wrongs:
        plain = memory.plain()
        debts = plain["debts"]
        assert isinstance(debts, dict)
        plain["debts"] = {**debts, **wrong} if isinstance(wrong, dict) else wrong
        assert memory_of(plain) == Memory()


def wish(hours: float) -> float:
    return NOW + 3600.0 * hours


def test_who_claims_a_deadline_for_everything_gets_nothing_of_anothers() -> None:
    """pal:by costs its user nothing: it divides anew what is his own, and others are owed what they were."""
    honest = [asks(n, "lab", "fussy", user="honest", submit=NOW - 500) for n in range(1, 5)]
    greedy = [asks(n, "lab", "fussy", user="greedy", submit=NOW - 500) for n in range(5, 9)]
    fair = FairShares({"lab": 1.0})
    before = owed("gavel/cost-slo", *honest, *greedy, fair=fair)
    claims = replace(fair, wishes={job.id: wish(3) for job in greedy})
    after = owed("gavel/cost-slo", *honest, *greedy, fair=claims)
    for job in honest:
        assert after.shares[job.key] == before.shares[job.key] and after.rates[job.key] == before.rates[job.key]
    assert after.gpus == before.gpus
    made, plainly = decided(after, *honest, *greedy), decided(before, *honest, *greedy)
    assert {j.id for j in honest if made[j.id].action is Action.START} == {
        j.id for j in honest if plainly[j.id].action is Action.START
    }
    assert [made[job.id].rank for job in honest] == [plainly[job.id].rank for job in honest]
    kept = owed("gavel/cost-slo", *honest, *greedy, fair=replace(fair, deadlines=claims.wishes))
    assert any(
        kept.rates[job.key] < before.rates[job.key] for job in honest
    )  # what --deadline can, for Slurm ends late ones


def test_a_claim_says_which_of_his_own_jobs_comes_first() -> None:
    his = [asks(n, "lab", "fussy", 2, user="one", submit=NOW - 500) for n in (1, 2, 3)]
    due = owed("gavel/cost-slo", *his, fair=FairShares({"lab": 1.0}, wishes={3: wish(5.5)}))
    assert decided(due, *his)[3].rank == 0
    assert decided(owed("gavel/cost-slo", *his, fair=FairShares({"lab": 1.0})), *his)[1].rank == 0


def test_nobody_waits_over_ten_times_as_long_as_one_that_is_owed_all_its_time() -> None:
    nothing, all_ = asks(1, "small", submit=NOW - 1000), asks(2, "big", submit=NOW - 99)
    due = DueNow("gavel/max-sum", ("slow", "fast"), rates={nothing.key: 0.0, all_.key: 1.0})
    assert due.owed_s(nothing, NOW) == LEAST * 1000 > due.owed_s(all_, NOW)


def test_a_job_leaves_a_pool_that_it_is_not_owed_to_others_and_not_for_ever() -> None:
    job = asks(1, "big", "easy")
    taken = running(9, {FAST: (0, 1)}, end=NOW + 9000, partitions=("gpu",), hint=Hint("fussy"))
    due = DueNow("gavel/cost", ("slow", "fast"), {job.key: (0.0, 1.0)}, {job.key: 1.0})
    waits = decided(due, taken, job)[1]
    assert (waits.action, waits.reason, waits.until) == (Action.WAIT, Reason.BETTER_POOL_SOON, job.submit + 1800.0)
    late = decided(due, taken, replace(job, submit=NOW - 20_000))[1]
    assert late.action is Action.START and late.placement is not None and late.placement.nodes == (SLOW,)
    nobody = decided(DueNow("gavel/cost"), taken, job)[1]  # not worked out yet: as without
    assert nobody.action is Action.START


def test_why_says_what_a_job_is_owed_and_by_whose_weight() -> None:
    jobs = [asks(n, "big", "easy", 2) for n in (1, 2, 3)]
    due = owed("gavel/hierarchical", *jobs)
    seen: Snapshot = snapshot(*jobs, cluster=CLUSTER)
    waits = Decision(1, None, Action.WAIT, Reason.NO_ROOM)
    told = " ".join(sentences(why_of(waits, jobs[0], seen, KNOWS, "pin", due.told(jobs[0], NOW))))
    assert (
        "By gavel/hierarchical it is owed" in told
        and "big weighs 0.75" in told
        and "s of its best GPUs by then" in told
        and "u is owed 4 GPUs there and had 0" in told
    )


def test_every_entitlement_of_the_simulator_can_be_followed() -> None:
    jobs = [asks(n, "big" if n % 2 else "small", "fussy" if n % 3 else "easy", 1 + n % 2) for n in range(1, 12)]
    for name in entitlements.names():
        if name != "none":
            rates = np.array(list(owed(name, *jobs).rates.values()))
            assert len(rates) == len(jobs) and (rates >= 0).all() and rates.sum() > 0, name


def test_tasks_of_an_array_are_as_many_jobs_and_who_waits_for_another_job_is_none() -> None:
    array = asks(1, "big", array_id=1, array_tasks=tuple(range(8)))
    blocked = asks(2, "small", dependency="afterok:9")
    due = owed("gavel/max-min", array, asks(3, "small"), blocked)
    assert blocked.key not in due.shares and due.rates[array.key] < 1.0


@pytest.mark.parametrize("name", [name for name in entitlements.names() if name != "none"])
@pytest.mark.parametrize("heavy", [0.0, 1.0], ids=["nobody weighs anything", "one account weighs nothing"])
def test_who_weighs_nothing_is_owed_the_least_and_starts_all_the_same(name: str, heavy: float) -> None:
    jobs = [asks(1, "big", "fussy", 2, user="b"), asks(2, "small", "easy", 2, user="s")]
    due = owed(name, *jobs, fair=FairShares({"big": heavy, "small": 0.0}))
    assert all(due.owed_s(job, NOW) > 0 and due.owed_gpus((job.account, job.user)) > 0 for job in jobs)
    assert {d.action for d in decided(due, *jobs).values()} <= {Action.START, Action.WAIT}
    late = [replace(job, submit=NOW - 40_000) for job in jobs]
    assert {d.action for d in decided(due, *late).values()} == {Action.START}


@pytest.mark.parametrize("account", ["big", "small"])
def test_one_users_ten_thousand_jobs_keep_nobody_from_being_reckoned_with(account: str) -> None:
    array = asks(1, "big", array_id=1, array_tasks=tuple(range(10_000)), user="many")
    few = [asks(n, account, user="few") for n in (2, 3)]
    due = owed("gavel/hierarchical", array, *few, fair=FairShares({"big": 0.5, "small": 0.5}))
    assert all(due.rates[job.key] > 0 for job in (array, *few))
    single = [asks(n, "big", user="many") for n in range(10, 10 + MOST_ROWS)]
    due = owed("gavel/hierarchical", *single, *few)
    assert len(due.rates) == MOST_ROWS and all(due.rates[job.key] > 0 for job in few)


def test_what_was_owed_of_other_models_counts_for_none() -> None:
    job, busy = asks(1, "big", "easy"), running(9, {FAST: (0, 1)}, end=NOW + 9000, partitions=("gpu",))
    for pools in (("slow",), ("fast", "slow"), ("old", "slow", "fast")):  # nodes came, went or were renamed since
        due = DueNow("gavel/cost", pools, {job.key: (*([0.0] * (len(pools) - 1)), 1.0)}, {job.key: 1.0})
        assert decided(due, busy, job)[1].action is Action.START


def test_who_begins_later_has_no_part_until_then() -> None:
    later = asks(1, "big", lease=Lease(NOW + 60, Request(), not_before=NOW + 9000))
    due = owed("gavel/max-min", later, asks(2, "big"))
    assert later.key not in due.shares and decided(due, later, asks(2, "big"))[2].rank == 0


def test_who_asked_for_a_later_begin_did_not_wait_until_then() -> None:
    early, plain = asks(1, "big", submit=NOW - 90_000), asks(2, "big", submit=NOW - 500)
    assert early.lease is not None
    early = replace(early, lease=replace(early.lease, not_before=NOW - 10))
    due = DueNow("gavel/max-min", rates={early.key: 1.0, plain.key: 1.0})
    assert (due.owed_s(early, NOW), due.owed_s(plain, NOW)) == (10.0, 500.0)
