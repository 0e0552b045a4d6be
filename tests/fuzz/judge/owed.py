"""P5 and P12 where an entitlement counts, P2 where there are several GPU models.

Who comes first and is owed as much is not passed over; who claims that all his jobs are late takes nobody's place; who
keeps to a GPU model is pinned to no other.

What the bench's slurmdbd says of accounts (dues.py) stands here once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product

from tests.fuzz.history import Ended, Name, Started, Submitted
from tests.fuzz.judge.facts import Facts, Verdict, hosts, meant

CLAIMANT = "a9"
LATER_S = 10.0  # a pass of Slurm's
AHEAD_S = 3.0  # slurmctld counts in whole seconds
AGO_S = (0.01, 10.0, 20.0)  # before a start: what was known then
A_WHILE_S = 15.0  # a few cycles, and two passes
# Which part of everything each account is to get, where all of that can be read
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "even": {"a1": 1, "a2": 1, "a3": 1, "a9": 1},
    "heavy": {"a1": 8, "a2": 1, "a3": 2, "a9": 1},
    "few": {"a1": 1, "a2": 8, "a3": 8, "a9": 1},
    "zero": {"a1": 1, "a2": 0, "a3": 1, "a9": 1},
    "empty": {},
    "gone": {},
}


def account(options: tuple[str, ...]) -> str:
    return options[options.index("-A") + 1] if "-A" in options else ""


def ask(options: tuple[str, ...]) -> tuple[str, ...]:
    """All but whose it is."""
    at = options.index("-A") if "-A" in options else len(options)
    return (*options[:at], *options[at + 2 :])


def said_same(options: tuple[str, ...]) -> bool:
    return any("pal:same" in word.split() for option in options for word in [option.removeprefix("--comment=")])


def _judged(facts: Facts) -> Iterator[tuple[tuple[Name, Started], tuple[Name, Started]]]:
    """Two jobs of two accounts that ask for the same, the second one's of no more weight: it started sooner."""
    setting, options = facts.history.setting, facts.history.options
    weights = WEIGHTS.get(setting["shares"])
    if not setting["entitlement"] or weights is None or facts.troubles or facts.nodes:
        return
    if any(event.what != "release" for event in facts.did):  # when all is mended
        return
    starts = [one for one in facts.first_start.items() if one[0][1] is None and "-d" not in options[one[0][0]]]
    for one, other in product(starts, starts):
        mine, theirs = (account(options[name[0]]) for name, _ in (one, other))
        alike = mine != theirs and ask(options[one[0][0]]) == ask(options[other[0][0]])
        if alike and other[1].at < one[1].at - LATER_S and weights.get(mine, 1) >= weights.get(theirs, 1) > 0:
            yield one, other


def who_is_owed_as_much_is_not_passed_over(facts: Facts) -> Iterator[Verdict]:
    """Who came first, of an account that has no more jobs just then, where accounts divide."""
    options = facts.history.options
    if "hierarchical" not in facts.history.setting["entitlement"]:
        return  # elsewhere each job is owed its part, and who has more jobs more
    for (name, start), (later, its) in _judged(facts):
        mine, theirs = account(options[name[0]]), account(options[later[0]])
        if facts.submitted[name[0]].at + AHEAD_S > facts.submitted[later[0]].at:
            continue
        if all(_jobs(facts, mine, its.at - ago) <= _jobs(facts, theirs, its.at - ago) for ago in AGO_S):
            said = (
                f"job {later[0]} of {theirs} asks for the same, came later and started {start.at - its.at:.0f} s sooner"
            )
            yield Verdict("P5", "passed-over", start.at, name, said)


def who_has_less_is_not_passed_over_by_a_flood(facts: Facts) -> Iterator[Verdict]:
    """Whoever came first: while a job waits whose account has nothing, no other account gets half of all GPUs.

    Where accounts divide GPUs of one model, nor does one get more for its weight than the other would have with it.
    """
    options, setting = facts.history.options, facts.history.setting
    weights, all_gpus = WEIGHTS.get(setting["shares"], {}), sum(facts.history.nodes.values())
    divided = "hierarchical" in setting["entitlement"] and "," not in setting["models"]
    got: dict[tuple[Name, str], int] = defaultdict(int)
    for (name, start), (other, its) in _judged(facts):
        since, theirs = facts.submitted[name[0]].at + A_WHILE_S, account(options[other[0]])
        if its.at < since:
            continue
        got[name, theirs] += _gpus(its)
        mine, given = account(options[name[0]]), got[name, theirs]
        has = max(_held(facts, mine, at) for at in (since, its.at, start.at - LATER_S))
        full = min(given, _held(facts, theirs, its.at))
        less = divided and (has + _gpus(start)) * weights.get(theirs, 1) < full * weights.get(mine, 1)
        if 2 * given >= all_gpus and (less or not has):
            said = f"{mine} had {has} GPUs, and {theirs} got {given} while it waited"
            yield Verdict("P5", "flooded", start.at, name, said)


def _gpus(start: Started) -> int:
    return sum(len(part.slots) for part in start.parts)


def _held(facts: Facts, owner: str, at: float) -> int:
    """GPUs at that moment."""
    mine = (s for s in facts.stays if s.start <= at < s.end and account(facts.history.options[s.job[0]]) == owner)
    return sum(len(stay.slots) for stay in mine)


def _jobs(facts: Facts, owner: str, at: float) -> int:
    """That wait or run then."""
    there: set[Name] = set()
    for event in facts.events:
        if event.at > at:
            break
        if isinstance(event, Submitted) and account(facts.history.options[event.record.job[0]]) == owner:
            there.add(event.record.job)
        elif isinstance(event, Ended):
            there.discard(event.job)
    return len(there)


def who_claims_takes_nobodys_place(facts: Facts) -> Iterator[Verdict]:
    """Against the same world in which that user claims nothing."""
    modest = facts.history.modest
    for name, start in facts.first_start.items() if modest is not None else ():
        was = (modest or {}).get(name)
        if was is None or account(facts.history.options[name[0]]) == CLAIMANT:
            continue
        if start.at > was + LATER_S:
            said = f"started {start.at - was:.0f} s later than where nobody claims to be late"
            yield Verdict("P12", "claimed-away", start.at, name, said)


def a_model_is_kept(facts: Facts) -> Iterator[Verdict]:
    """A pin of a job that ran before, and said pal:same, names a model that it had."""
    models = dict(zip(facts.history.nodes, facts.history.setting["models"].split(","), strict=False))
    if len(set(models.values())) < 2:
        return
    first = {name: {models[part.node] for part in start.parts} for name, start in facts.first_start.items()}
    for update in facts.ours:
        if not update.nodes:
            continue
        for record in (r for r in update.before if meant(update.target, r)):
            had = first.get(record.job, set())
            ran = facts.first_start.get(record.job)
            if not record.restarts or len(had) != 1 or ran is None or ran.at > update.content:
                continue
            told = said_same(facts.history.options[record.job[0]]) and not any(facts.said(record.job[0], "edit"))
            wrong = {models[node] for node in hosts(update.nodes)} - had
            if told and wrong:
                said = f"it said pal:same and ran on {' '.join(had)}; pinned to {update.nodes}"
                yield Verdict("P2", "other-model", update.at, record.job, said)


RULES = (
    who_is_owed_as_much_is_not_passed_over, who_has_less_is_not_passed_over_by_a_flood,
    who_claims_takes_nobodys_place, a_model_is_kept,
)  # fmt: skip
