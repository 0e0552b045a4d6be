"""What pages of verdicts share. In: verdicts. Out: Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from tests.slurm.verdicts.verdict import V, Verdict


def summary(verdicts: Sequence[Verdict], lines: str, exceptions: Mapping[str, str]) -> Iterator[str]:
    """`lines`: what they are called."""
    named = " | ".join(f"exception `{name}`" for name in exceptions)
    yield f"| Slurm | through | {lines} | equal | {named} | different |"
    yield "|---|---|---|---|" + "---|" * (len(exceptions) + 1)
    for (release, backend), group in groupby(sorted(verdicts, key=lambda v: v.arm), key=lambda v: v.arm):
        counts = Counter(verdict.word for verdict in group)
        cells = [counts["equal"], *(counts[name] for name in exceptions), counts["different"]]
        yield f"| {release} | {backend} | {counts.total()} | " + " | ".join(map(str, cells)) + " |"
    yield ""
    yield from (f"- `{name}`: {why}" for name, why in exceptions.items())
    again = sum(verdict.again for verdict in verdicts)
    yield f"- What differs is run once more, as a busy machine may be late: {again} of {len(verdicts)} were."


def cell(verdicts: Sequence[Verdict], *, asked: bool) -> str:
    """`asked`: whether it is to be run there."""
    if not verdicts:
        return "not run" if asked else "-"
    return ", ".join(sorted({f"**{v.word}**" if v.differs else v.word for v in verdicts}))


def newest(verdicts: Sequence[V]) -> list[V]:
    last = max((verdict.release for verdict in verdicts), default="")
    return [verdict for verdict in verdicts if verdict.release == last]


def by_line(verdicts: Sequence[V]) -> dict[str, list[V]]:
    found: dict[str, list[V]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.line, []).append(verdict)
    return found


def code(text: str) -> str:
    return "`" + safe(text) + "`"


def safe(text: str) -> str:
    return text.replace("|", "\\|")
