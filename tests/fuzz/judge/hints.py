"""P12: forged tags slow nobody down whose jobs have shown their class. Against the same world with honest tags.

What the bench's GPUs are to each class (scores.py), and who runs what (hints.py), stands here once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.fuzz.history import Name, Started
from tests.fuzz.judge.facts import Facts, Verdict

OF_A = (1.3, 1.0, 1.1, 0.95)  # of slots
# By user: of two applications that lie between A and C no class of their own is learned, so u2's are of A too.
SPEEDS = {"u1": OF_A, "u2": OF_A, "u3": (1.0, 1.0, 1.0, 1.0)}
HOSTILE = ("u8", "u9")
MUCH = 1.2
SOONER_S = 2.0


def nobody_is_slowed_by_a_forged_tag(facts: Facts) -> Iterator[Verdict]:
    honest = list(_honest(facts))
    sooner = {job for job in {name[0] for name, _, _ in honest} if _starts_sooner(job, honest)}
    for name, start, was in honest:
        if name[0] in sooner:
            continue  # by other run times of his jobs it came sooner, to what was free then
        now, then = _speed(facts, name, start), _speed(facts, name, was)
        if now > MUCH * then:
            said = f"on a GPU of {now:.2f}, and of {then:.2f} where no tag is forged"
            yield Verdict("P12", "outranked", start.at, name, said)


def who_waits_with_a_forged_tag_changes_nobodys_gpus(facts: Facts) -> Iterator[Verdict]:
    """Of jobs that start before any of his, in both worlds."""
    if facts.history.honest_tags is None:
        return
    begun = min(_first(facts, facts.first_start), _first(facts, facts.history.honest_tags))
    for name, start, was in _honest(facts):
        if max(start.at, was.at) < begun and start.parts != was.parts:
            said = "on other GPUs than where no tag is forged, while all forged ones wait"
            yield Verdict("P12", "tags-weigh", start.at, name, said)


def _honest(facts: Facts) -> Iterator[tuple[Name, Started, Started]]:
    starts = facts.history.honest_tags
    for name, start in facts.first_start.items() if starts is not None else ():
        was = (starts or {}).get(name)
        if was is not None and facts.history.users[name[0]] in SPEEDS:
            yield name, start, was


def _starts_sooner(job: int, honest: Sequence[tuple[Name, Started, Started]]) -> bool:
    """Whether a job, or an array as a whole, starts sooner. Tasks are alike: compared in the order of starts."""
    now = sorted(start.at for name, start, _ in honest if name[0] == job)
    then = sorted(was.at for name, _, was in honest if name[0] == job)
    gained = [was - at for at, was in zip(now, then, strict=True)]
    return max(gained) > SOONER_S and min(gained) >= -SOONER_S


def _speed(facts: Facts, name: Name, start: Started) -> float:
    speeds = SPEEDS[facts.history.users[name[0]]]
    return max((speeds[slot] for part in start.parts for slot in part.slots), default=1.0)


def _first(facts: Facts, starts: Mapping[Name, Started]) -> float:
    return min((s.at for name, s in starts.items() if facts.history.users[name[0]] in HOSTILE), default=float("inf"))


RULES = (nobody_is_slowed_by_a_forged_tag, who_waits_with_a_forged_tag_changes_nobodys_gpus)
