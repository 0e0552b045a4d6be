"""Several partitions: which of those that a job names take it, in which order Slurm serves them, who makes way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.daemon.preempting import let_preempt, those_of
from pal_slurm.guard import Cause, Refusal, Rules, check
from pal_slurm.model import (
    Action,
    Cluster,
    Decision,
    Job,
    Knowledge,
    PartitionRule,
    Placement,
    Reason,
    Shape,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import compose, plan
from pal_slurm.slurm.commands.cluster import read_machine, read_partitions
from pal_slurm.slurm.commands.columns import QueueRow
from pal_slurm.slurm.commands.queue import to_record
from pal_slurm.slurm.nodes import Machine, NodeRecord, PartitionRecord, ReservationRecord, SiteWords
from pal_slurm.slurm.records import to_job
from pal_slurm.slurm.snapshots import to_snapshot
from tests.builders import NOW, leased, running, snapshot
from tests.simpald import SETUP, House

Make = Callable[..., House]
DAY = 86_400
SINGLE = Shape(gpus=1)
ALL = np.ones(2, dtype=np.bool_)
ONE = np.array([True, False])


def cluster(**rules: PartitionRule) -> Cluster:
    """Two nodes; all partitions serve both but `first`."""
    parts = {name: ONE if name == "first" else ALL for name in rules}
    return replace(homogeneous(2, 4), partitions=parts, rules=rules)


def start(on: Cluster, **job: Any) -> Decision:
    view = snapshot(leased(1, **{"time_limit_s": 2 * DAY, **job}), cluster=on)
    (found,) = plan(view, Knowledge(neutral_scores(on)), compose("pal", patience="none")).decisions
    return found


def where(on: Cluster, **job: Any) -> str | None:
    found = start(on, **job)
    assert found.action is Action.START and found.placement is not None
    return found.placement.partition


SHORT = PartitionRule(longest_s=DAY)


@pytest.mark.parametrize(
    ("closed", "job"),
    [
        (SHORT, {}),
        (SHORT, {"time_limit_s": None}),
        (PartitionRule(least_nodes=2), {}),
        (PartitionRule(most_nodes=1), {"shape": Shape(2, 2, gpus_per_node=1)}),
        (PartitionRule(qos=frozenset({"high"})), {"qos": "normal"}),
        (PartitionRule(not_qos=frozenset({"normal"})), {"qos": "normal"}),
    ],
)
def test_no_job_is_pinned_in_a_partition_that_does_not_take_it(closed: PartitionRule, job: dict[str, Any]) -> None:
    on = cluster(closed=closed, long=PartitionRule())
    assert where(on, partitions=("closed", "long"), **job) == "long"
    assert where(on, partitions=("long", "closed"), **job) == "long"


def test_who_named_several_is_told_which_also_behind_one_who_named_that_one_alone() -> None:
    on = cluster(closed=SHORT, long=PartitionRule())
    names = [("long",), ("closed", "long"), ("long",)]
    jobs = [leased(number, time_limit_s=2 * DAY, partitions=named) for number, named in enumerate(names, 1)]
    view = snapshot(*jobs, cluster=on)
    decided = plan(view, Knowledge(neutral_scores(on)), compose("pal", patience="none")).decisions
    assert [d.placement and d.placement.partition for d in decided] == [None, "long", None]
    assert not [v for v in check(list(decided), view, Rules(True, True, 3)) if isinstance(v, Refusal)]


def test_of_partitions_that_serve_the_same_nodes_slurm_takes_its_pick() -> None:
    on = cluster(low=PartitionRule(), high=PartitionRule(tier=5), also=PartitionRule())
    assert where(on, partitions=("low", "high", "also")) == "high,low,also"
    assert where(on, partitions=("low", "also")) == "low,also"


def test_a_higher_tier_is_tried_first() -> None:
    on = cluster(first=PartitionRule(), other=PartitionRule(tier=2))
    assert where(on, partitions=("first", "other")) == "other"


def test_a_partition_that_takes_none_of_them_is_left_to_slurm() -> None:
    """It may have been given more time than its partition allows, by an admin or its QOS."""
    assert where(cluster(short=SHORT), partitions=("short",)) is None
    assert where(cluster(short=SHORT, brief=SHORT), partitions=("short", "brief")) == "short,brief"


def test_no_job_is_spread_over_more_nodes_than_its_partition_gives() -> None:
    on = replace(cluster(single=PartitionRule(most_nodes=1)), gpu_free=np.array([[True, True, False, False]] * 2))
    job = {"partitions": ("single",), "shape": Shape(1, 4, gpus=4, fewest=True)}
    assert start(on, **job).action is Action.WAIT
    assert start(replace(on, rules={}), **job).placement is not None


def test_the_guard_refuses_them_too() -> None:
    on = cluster(short=SHORT, long=PartitionRule(), single=PartitionRule(most_nodes=1))

    def cause(nodes: tuple[str, ...], partition: str | None, *names: str, shape: Shape = SINGLE) -> Cause | None:
        job = leased(1, partitions=names, time_limit_s=2 * DAY, shape=shape)
        placement = Placement(nodes, ((0,),) * len(nodes), True, partition)
        pin = Decision(1, None, Action.START, Reason.BEST_SPAN, placement)
        (verdict,) = check([pin], snapshot(job, cluster=on), Rules(disable_job_shrink=True))
        return verdict.reason if isinstance(verdict, Refusal) else None

    assert cause(("n1",), "short", "short", "long") is Cause.PARTITION
    assert cause(("n1",), "short,long", "short", "long") is Cause.PARTITION
    assert cause(("n1",), "long,single", "short", "long", "single") is None
    assert cause(("n1",), "long,other", "short", "long") is Cause.PARTITION
    two = Shape(2, 2, gpus_per_node=1)
    assert cause(("n1", "n2"), None, "single", shape=two) is Cause.PARTITION
    assert cause(("n1", "n2"), None, "long", shape=two) is None


LINES = b"""\
PartitionName=short AllowQos=ALL MaxNodes=1 MaxTime=1-00:00:00 MinNodes=0 Nodes=n[1-2] PriorityTier=1 \
PreemptMode=OFF State=UP OverSubscribe=NO
PartitionName=owners AllowQos=high,low MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=2 Nodes=n[1-2] \
PriorityTier=10 PreemptMode=REQUEUE State=UP OverSubscribe=NO
PartitionName=guests AllowQos=ALL DenyQos=debug MaxNodes=UNLIMITED MaxTime=02:00:00 Nodes=n[1-2] PriorityTier=0
"""


def test_what_slurm_says_of_a_partition_is_read() -> None:
    rules = {name: record.rule for name, record in read_partitions(LINES).items()}
    assert rules["short"] == PartitionRule(1, DAY, 0, 1)
    high = frozenset({"high", "low"})
    assert rules["owners"] == PartitionRule(10, math.inf, 2, math.inf, high, preempted=True)
    assert rules["guests"] == PartitionRule(0, 7200, not_qos=frozenset({"debug"}))


def test_jobs_of_a_higher_tier_come_first_whatever_their_priority() -> None:
    low, high = PartitionRecord("low", "n1"), PartitionRecord("high", "n1", rule=PartitionRule(tier=5))
    jobs = [leased(1, partitions=("low",), priority=900), leased(2, partitions=("low", "high"), priority=1)]
    node = NodeRecord("n1", "IDLE", 8, gres="gpu:g0:1")
    view = to_snapshot(Machine([node], [low, high], [], taken=NOW), jobs, SiteWords())
    assert [job.id for job in view.pending] == [2, 1]
    made = plan(view, Knowledge(neutral_scores(view.cluster)), compose("pal", patience="none"))
    assert [d.job for d in made.starts] == [2]
    alike = to_snapshot(Machine([node], [low, replace_tier(high)], [], taken=NOW), jobs, SiteWords())
    assert [job.id for job in alike.pending] == [1, 2]


def replace_tier(record: PartitionRecord) -> PartitionRecord:
    return PartitionRecord(record.name, record.nodes)


class TestPreemptionByTier:
    OWNERS, GUESTS = PartitionRule(tier=10), PartitionRule(preempted=True)
    RULES = Rules(disable_job_shrink=True, preempts_by_tier=True)

    def decided(
        self, job: Job, rules: Rules = RULES, guests: PartitionRule = GUESTS
    ) -> list[tuple[Action, int | None]]:
        on = cluster(owners=self.OWNERS, guests=guests, first=self.OWNERS)
        guest = running(9, {"n2": (0, 1, 2, 3)}, partitions=("guests",))
        view = snapshot(job, guest, cluster=on)
        waits = [Decision(job.id, None, Action.WAIT, Reason.NO_ROOM)]
        return [(d.action, d.task) for d in let_preempt(waits, view, rules)]

    def test_who_finds_no_room_is_let_go_where_somebody_has_to_make_way(self) -> None:
        owner = leased(1, partitions=("owners",), tier=10)
        assert self.decided(owner) == [(Action.PLAIN, None)]
        assert self.decided(leased(1, partitions=("guests",))) == [(Action.WAIT, None)]
        assert self.decided(owner, replace(self.RULES, preempts_by_tier=False)) == [(Action.WAIT, None)]
        assert self.decided(owner, guests=PartitionRule()) == [(Action.WAIT, None)]
        elsewhere = replace(owner, partitions=("first",))
        assert self.decided(elsewhere) == [(Action.WAIT, None)]

    def test_each_task_of_an_array_is(self) -> None:
        tasks = leased(1, partitions=("owners",), tier=10, array_id=1, array_tasks=(3, 5))
        assert self.decided(tasks) == [(Action.PLAIN, 3), (Action.PLAIN, 5)]

    def test_under_pald_it_starts_to_wait_in_slurms_own_queue_within_seconds(self, make_house: Make) -> None:
        house = make_house(count=1, setup=replace(SETUP, preempts_by_tier=True))
        nodes = house.controller.partitions[0].nodes
        house.controller.partitions = [
            PartitionRecord("gpu", nodes, rule=self.GUESTS),
            PartitionRecord("owners", nodes, rule=PartitionRule(tier=10)),
        ]
        guest = house.submit("--gres=gpu:4", "--time=600", runs=36_000)
        house.live(10)
        owner, other = house.submit("--gres=gpu:4", "-p", "owners"), house.submit("--gres=gpu:4")
        house.live(10)
        assert house.state(guest) == "RUNNING"
        assert house.job(owner).begin <= house.now < house.job(other).begin


class TestWhatOnlySlurmKnowsThePlaceOf:
    """Free GPUs of others' nodes are not for them, or those of a reservation are: nothing that we see tells."""

    NODES = (NodeRecord("n1", "IDLE", 8, gres="gpu:g0:1"), NodeRecord("n2", "IDLE", 8, gres="gpu:g0:1"))

    def decided(self, partition: PartitionRecord, windows: tuple[ReservationRecord, ...] = (), **job: Any) -> Action:
        view = to_snapshot(
            Machine(list(self.NODES), [partition], list(windows), taken=NOW),
            [leased(1, partitions=(partition.name,), **job)],
            SiteWords(),
        )
        (found,) = plan(view, Knowledge(neutral_scores(view.cluster)), compose("pal", patience="none")).decisions
        return found.action

    @pytest.mark.parametrize("word", ["ExclusiveUser=YES", "ExclusiveTopo=YES", "Exclusive=USER", "Exclusive=TOPO"])
    def test_nodes_that_one_user_shares_with_himself(self, word: str) -> None:
        (record,) = read_partitions(f"PartitionName=p Nodes=n[1-2] State=UP {word}".encode()).values()
        assert record.by_user and not record.exclusive
        assert self.decided(record) is Action.PLAIN
        plain = read_partitions(b"PartitionName=p Nodes=n[1-2] State=UP ExclusiveUser=NO ExclusiveTopo=NO Exclusive=NO")
        assert self.decided(plain["p"]) is Action.START

    @pytest.mark.parametrize(
        ("column", "word"), [("OverSubscribe", "USER"), ("Exclusive", "USER"), ("Exclusive", "MCS")]
    )
    def test_a_job_that_shares_its_nodes_with_its_user_alone(self, column: str, word: str) -> None:
        """Where its user's other jobs run there is room for it, and for nobody else."""
        texts = {
            "JobId": "1",
            "State": "PENDING",
            "UserName": "ann",
            "SubmitTime": str(NOW - 9),
            "tres-per-node": "gres/gpu:1",
        }
        more = {"admin_comment": "pal1{b=1;n=gres/gpu:1}", "EligibleTime": str(NOW + 60), "Partition": "p"}
        for said, found in ((word, Action.PLAIN), ("OK" if column == "OverSubscribe" else "NO", Action.START)):
            job = to_job(to_record(QueueRow(texts | more | {column: said}, True)))
            view = to_snapshot(
                Machine(list(self.NODES), [PartitionRecord("p", "n[1-2]")], [], taken=NOW), [job], SiteWords()
            )
            made = plan(view, Knowledge(neutral_scores(view.cluster)), compose("pal", patience="none"))
            assert [d.action for d in made.decisions] == [found]

    @pytest.mark.parametrize(
        ("who", "drawn"),
        [
            ({}, True), ({"users": ["ann"]}, True), ({"users": ["bob"]}, False), ({"users": ["-ann"]}, False),
            ({"users": ["-bob"]}, True), ({"accounts": ["lab"]}, True), ({"accounts": ["other"]}, False),
            ({"users": ["ann"], "accounts": ["-lab"]}, False), ({"groups": ["course"]}, True),
        ],
    )  # fmt: skip
    def test_a_magnetic_reservation(self, who: dict[str, Any], drawn: bool) -> None:
        partition, now = PartitionRecord("p", "n[1-2]"), NOW
        flags = ["MAGNETIC", "SPEC_NODES"]
        job = {"user": "ann", "account": "lab"}
        course = ReservationRecord("course", "n1", now - 10, now + DAY, flags, **who)
        assert self.decided(partition, (course,), **job) is (Action.PLAIN if drawn else Action.START)
        later = ReservationRecord("course", "n1", now + 10, now + DAY, flags, **who)
        assert self.decided(partition, (later,), **job) is Action.START
        asks = ReservationRecord("course", "n1", now - 10, now + DAY, ["SPEC_NODES"], **who)
        assert self.decided(partition, (asks,), **job) is Action.START

    @pytest.mark.parametrize(
        ("words", "slurms"), [("mig", True), ("a100&mig*2", True), ("[mig|x]", True), ("a100", False)]
    )
    def test_a_feature_for_which_slurm_reboots_a_node(self, words: str, slurms: bool) -> None:
        line = b"NodeName=%s State=IDLE CPUTot=8 Gres=gpu:g0:1 AvailableFeatures=mig,a100 ActiveFeatures=%s"
        nodes = read_machine([line % (b"n1", b"a100,mig") + b"\n" + line % (b"n2", b"a100"), b"", b"", b""]).nodes
        found = {}
        for names in ((0,), (0, 1)):
            machine = Machine([nodes[i] for i in names], [PartitionRecord("p", "n[1-2]")], [], taken=NOW)
            (job,) = to_snapshot(machine, [leased(1, partitions=("p",), features=words)], SiteWords()).pending
            found[len(names)] = job.slurms
        assert found == {1: False, 2: slurms}

    def test_a_reservation_of_some_cores_closes_no_node(self) -> None:
        """Nothing is pinned there: Slurm alone knows which GPUs are left."""
        line = b"ReservationName=%s StartTime=1 EndTime=4000000000 Nodes=n1 NodeCnt=1 CoreCnt=%d Flags=SPEC_NODES"
        some = line % (b"some", 2) + b" TRES=cpu=2 Users=ann,bob Accounts=(null) NodeName=n1 CoreIDs=0-1"
        answers = [b"", b"", some + b"\n" + line % (b"all", 8) + b" TRES=cpu=8 Users=(null) Accounts=lab", b""]
        found = read_machine(answers).reservations
        told = [(r.nodes, r.users, r.accounts, r.partly) for r in found]
        assert told == [("n1", ["ann", "bob"], [], True), ("n1", [], ["lab"], False)]
        partition = PartitionRecord("p", "n[1-2]")
        assert self.decided(partition, (found[0],)) is Action.START  # on the other node
        first = PartitionRecord("p", "n1")
        assert self.decided(first, (found[0],)) is Action.PLAIN
        assert self.decided(first, (found[1],)) is Action.WAIT
        array = {"array_id": 1, "array_tasks": (0,)}
        assert self.decided(first, (found[0],), **array) is Action.PLAIN
        later = ReservationRecord("later", "n1", NOW + 60, NOW + DAY, partly=True)
        assert self.decided(first, (later,), time_limit_s=DAY) is Action.PLAIN
        assert self.decided(first, (later,), time_limit_s=60) is Action.START


def test_who_was_edited_into_a_qos_that_may_preempt_is_slurms_to_place() -> None:
    view = snapshot(leased(1, qos="urgent"), leased(2, qos="normal"), replace(leased(3, qos="urgent"), lease=None))
    assert {job.id: job.slurms for job in those_of(("urgent",), view).pending} == {1: True, 2: False, 3: False}
    assert those_of((), view) is view
