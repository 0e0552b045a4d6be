"""A failing script made short. In: a script, a way to try it. Out: the shortest found that breaks the same rule.

Happenings and jobs are left out by halves, then one by one; then times become round, runs short and settings plain.
Jobs are known by their line, so the words of those that stay are counted anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.script import Happening, Script, Submission
from tests.fuzz.users import DEEDS

T = TypeVar("T")
Breaks = Callable[[Script], bool]
MOST_TRIES = 400


def shrink(script: Script, breaks: Breaks, tell: Callable[[str], None] = lambda said: None) -> Script:
    """`breaks`: whether a script still breaks the rule that this one did."""
    tried = 0
    smaller = True
    while smaller and tried < MOST_TRIES:
        smaller = False
        for candidate in _candidates(script):
            tried += 1
            if breaks(candidate):
                script, smaller = candidate, True
                tell(f"{len(script.jobs)} jobs, {len(script.happenings)} happenings after {tried} tries")
                break
            if tried >= MOST_TRIES:
                break
    return script


def _candidates(script: Script) -> Iterator[Script]:
    """Shorter ones, the boldest first."""
    for fewer in _without_some(script.happenings):
        yield replace(script, happenings=fewer)
    for lines in _without_some(range(len(script.jobs))):
        if lines:
            yield _only(script, lines)
    for name in script.setting:
        if name != "nodes":
            yield replace(script, setting={key: value for key, value in script.setting.items() if key != name})
    yield from _plainer(script)


def _without_some(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    size = len(items)
    while size >= 1:
        for first in range(0, len(items), size):
            yield (*items[:first], *items[first + size :])
        size //= 2


def _only(script: Script, lines: Sequence[int]) -> Script:
    """These jobs; what is about the others goes with them."""
    new = {line: number for number, line in enumerate(lines)}
    jobs = [_job(script.jobs[line], new) for line in lines]
    kept = [_happening(item, new) for item in script.happenings]
    return replace(script, jobs=tuple(jobs), happenings=tuple(item for item in kept if item is not None))


def _job(job: Submission, new: dict[int, int]) -> Submission:
    """What it depends on is told by number: the line and one, as long as no array comes before it."""
    options = list(job.options)
    for place, word in enumerate(options):
        if word.startswith("afterany:"):
            line = new.get(int(word[9:]) - 1)
            options[place] = f"afterany:{1 if line is None else line + 1}"
    return replace(job, options=tuple(options))


def _happening(item: Happening, new: dict[int, int]) -> Happening | None:
    if item.what == "swap":
        both = [new.get(int(word)) for word in item.words]
        return None if None in both else replace(item, words=tuple(map(str, both)))
    if item.what not in (*DEEDS, "offer"):
        return item
    line = new.get(int(item.words[0]))
    return None if line is None else replace(item, words=(str(line), *item.words[1:]))


def _plainer(script: Script) -> Iterator[Script]:
    for place, item in enumerate(script.happenings):
        if item.skip:
            yield replace(script, happenings=_at(script.happenings, place, replace(item, skip=item.skip - 1)))
        if item.at != (short := float(round(item.at))):
            yield replace(script, happenings=_at(script.happenings, place, replace(item, at=short)))
    for place, job in enumerate(script.jobs):
        for shorter in _shorter(job):
            if shorter != job:
                yield replace(script, jobs=_at(script.jobs, place, shorter))


def _shorter(job: Submission) -> Iterator[Submission]:
    yield replace(job, at=float(round(job.at)))
    yield replace(job, at=float(int(job.at / 2)))
    yield replace(job, runs=float(round(job.runs)))
    yield replace(job, runs=10.0 if job.runs > 20 else job.runs)
    yield replace(job, user="u")
    if "-t" in job.options:
        at = job.options.index("-t")
        yield replace(job, options=(*job.options[:at], *job.options[at + 2 :]))


def _at(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])
