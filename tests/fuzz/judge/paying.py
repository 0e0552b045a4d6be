"""P11: moves pay, or they stop. P12: one user's word makes nobody else's jobs slower.

What the bench's pal.yaml says of moves (palds.py), and how fast its GPUs are (scores.py), stands here once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.fuzz.history import Ended, Name, Part, Record, Requeued, Started, Stopped
from tests.fuzz.judge.facts import ADMIN, Facts, Verdict
from tests.fuzz.judge.moves import ASKED, moved_records

COST_S, MARGIN = 20.0, 2.0
MOST_S, LEAST_S = 7200.0, 1800.0  # over which a gain counts
ENOUGH = 5  # moves that are over
SEEN_S = 12.0  # a few cycles
SLOW = (1.3, 1.0, 1.1, 0.95)  # of each slot
ANOTHER_S = 60.0  # who was to get its GPUs has them by then
LIAR = "u9"
MUCH = 1.2


@dataclass(frozen=True)
class Over:
    """A move whose job has ended since, or runs anew."""

    at: float
    user: str
    lost: float  # GPU seconds, what it brought taken off


def _speed(parts: tuple[Part, ...]) -> float:
    return max((SLOW[slot] for part in parts for slot in part.slots), default=1.0)


def _gpus(parts: tuple[Part, ...]) -> int:
    return sum(len(part.slots) for part in parts)


def moves_over(facts: Facts) -> list[Over]:
    """By the GPUs that a job had before and after, and by what it lost in between."""
    runs: dict[Name, Started] = {}
    stopped: dict[Name, tuple[Stopped, Started]] = {}
    moved: dict[Name, tuple[float, Started, Started]] = {}
    known, found = facts.history.setting["scores"] != "none", []
    for event in facts.events:
        if isinstance(event, Started):
            name = event.record.job
            if name in stopped:
                stop, before = stopped.pop(name)
                moved[name] = (event.at - stop.at, before, event)
            runs[name] = event
        elif isinstance(event, Stopped) and event.by and event.by != ADMIN and event.job in runs:
            stopped[event.job] = (event, runs[event.job])
        if isinstance(event, Ended | Requeued) and event.job in moved:
            gap, was, now = moved.pop(event.job)
            ratio = _speed(now.parts) / _speed(was.parts) if known else 1.0
            brought = (event.at - now.at) * max(-1.0, 1.0 - ratio)
            lost = _gpus(now.parts) * (max(COST_S, gap) - brought)
            found.append(Over(event.at, facts.history.users[event.job[0]], lost))
    return found


def losing_since(facts: Facts) -> float | None:
    """When moves had cost more than they brought, whoever's jobs lost the most left out."""
    over = moves_over(facts)
    for count in range(ENOUGH, len(over) + 1):
        of_user: dict[str, float] = defaultdict(float)
        for move in over[:count]:
            of_user[move.user] += move.lost
        lost = sorted(of_user.values())
        if sum(lost) > 0 and (len(lost) == 1 or sum(lost[:-1]) > 0):
            return over[count - 1].at
    return None


def they_stop_when_they_lose(facts: Facts) -> Iterator[Verdict]:
    since = losing_since(facts)
    if since is None or any(t.what == "dbgone" for t in facts.troubles):
        return
    for at, record, _ in _begun_moves(facts):
        if at > since + SEEN_S and facts.well(since, at):
            said = f"moves have cost more than they brought since {since:.0f}, and go on"
            yield Verdict("P11", "goes-on", at, record.job, said)


def _begun_moves(facts: Facts) -> Iterator[tuple[float, Record, Started]]:
    """The first step of each: a signal, or the requeue of a run that got none."""
    begun: set[tuple[Name, float]] = set()
    for update in facts.ours:
        for record in moved_records(update):
            run = next(
                (e for e in reversed(facts.events) if isinstance(e, Started) and e.record.job == record.job
                 and e.at <= update.at), None,
            )  # fmt: skip
            if run is not None and (record.job, run.at) not in begun:
                begun.add((record.job, run.at))
                yield update.at, record, run


def a_move_is_worth_it(facts: Facts) -> Iterator[Verdict]:
    """Where pald chooses: what its next run may be shorter by, against what stopping costs."""
    setting = facts.history.setting
    if setting["moves"] != "own" or setting["scores"] != "good":
        return
    starts = [e for e in facts.events if isinstance(e, Started)]
    for at, record, run in _begun_moves(facts):
        after = next((e for e in starts if e.record.job == record.job and e.at > at), None)
        if after is None or _made_room(starts, run, at):
            continue
        word = ASKED.search(record.comment or "")
        cost = max(COST_S, _told(record.comment or ""))
        left = run.at + 60.0 * (record.limit or 10**6) - at
        rest = min(left, MOST_S, max(LEAST_S, at - run.at))
        gain = rest * (1.0 - _speed(after.parts) / _speed(run.parts))
        if gain < cost * MARGIN - 1.0 and (word is None or word[1] is None):
            said = f"moved for {gain:.0f} s of {left:.0f} that were left, at a cost of {cost:.0f} s"
            yield Verdict("P11", "not-worth", at, record.job, said)


def _told(comment: str) -> float:
    word = next((w for w in comment.split() if w.startswith("pal:move=")), "").partition("=")[2]
    return float(word) if word.isdigit() else 0.0


def _made_room(starts: list[Started], run: Started, at: float) -> bool:
    """Another job got what it left."""
    left = {(part.node, slot) for part in run.parts for slot in part.slots}
    later = (e for e in starts if at < e.at < at + ANOTHER_S and e.record.job != run.record.job)
    return any((part.node, slot) in left for e in later for part in e.parts for slot in part.slots)


def nobody_is_slowed_by_anothers_word(facts: Facts) -> Iterator[Verdict]:
    honest = facts.history.honest
    for name, start in facts.first_start.items() if honest is not None else ():
        was = (honest or {}).get(name)
        if was is not None and facts.history.users[name[0]] != LIAR and _speed(start.parts) > MUCH * _speed(was):
            said = f"on a GPU of {_speed(start.parts):.2f}, and of {_speed(was):.2f} where nobody lies"
            yield Verdict("P12", "slowed", start.at, name, said)


RULES = (they_stop_when_they_lose, a_move_is_worth_it, nobody_is_slowed_by_anothers_word)
