"""With pald and without: what differs of an edited job, and how pald treated it. In: Edited. Out: Verdict per case."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.slurm.edits.rows import Case
from tests.slurm.edits.run import Edited, cluster_of, run_all
from tests.slurm.pald import Pald
from tests.slurm.shapes.compare import differences, folded, how, in_words, uneven
from tests.slurm.shapes.got import Got
from tests.slurm.verdicts.verdict import Verdict, twice

LATE_S = 30.0  # longer than that after who has no pald: it was kept waiting
SOON_S = 3  # begin times that are as near as this are the same
EXCEPTIONS = {
    "split": "A total of GPUs over several nodes is split evenly, as for [shapes](shapes.md).",
    "pinned": "Between a pin and the start that it asks for, a second as a rule, the job asks for what the pin says. "
    "What its user asks then, Slurm holds against that: it may refuse what it would have taken (two nodes for a pin to "
    "one), or say no in other words. The pin's own nodes, a slot or an emptied request can't be told from the pin, or "
    "from what is left of it, and go with it. Said again a moment later they stand.",
}
# What a pin writes; where the edits changed it, it is its user's.
_PINS = re.compile(r"(task \d+: )?(ReqNodeList|NumNodes|TresPer\w+|ReqTRES|NumCPUs|NumTasks|Partition|MinMemory\w+)")
_PLACES = ("{first}", "{second}", "{also}", "{resv}", "even", "odd")


@dataclass(frozen=True)
class EditVerdict(Verdict):
    """What it waited: after there was room."""

    state: str
    refused: str  # by Slurm, in its words

    @property
    def what(self) -> str:
        return said_in(self.state, self.line)


def said_in(state: str, line: str) -> str:
    return f"{state}: {line}"


def compare(release: str, cases: Sequence[Case], home: Path, name: str, backends: Sequence[str]) -> list[EditVerdict]:
    return twice(
        cases,
        lambda case: said_in(case.state, case.line),
        lambda some, at: _compare(release, some, at, name, backends),
        home,
    )


def _compare(
    release: str, cases: Sequence[Case], home: Path, name: str, backends: Sequence[str]
) -> Iterator[EditVerdict]:
    cluster = cluster_of(cases, name, release)
    try:
        alone = run_all(cluster, cases, home / "alone")
        for backend in backends:
            let_go = cases[0].state == "b"  # with no scores nothing is better than Slurm's own choice
            settings = {"cluster.backend": backend, "lease.length_s": 60, "lease.let_through": let_go}
            with Pald(cluster, home / backend, settings) as pald:
                assert pald.once() == 0  # there is a database now
                if not let_go:
                    pald.scores(uneven(cluster), classes=("A", "B", "C"))
                beside = run_all(cluster, cases, home / f"beside-{backend}", pald)
                for case in cases:
                    made = [intent for job in beside[case.name].jobs for intent in pald.intents(job)]
                    yield judge(case, release, backend, alone[case.name], beside[case.name], how(made))
    finally:
        cluster.down()


def judge(case: Case, release: str, backend: str, alone: Edited, beside: Edited, placed: str) -> EditVerdict:
    differs = tuple(differences_of(case, alone, beside))
    seen = case.exception if differs and (case.exception != "pinned" or case.state == "c") else ""
    if seen == "pinned":
        differs = ()
    if seen == "split":
        differs = tuple(differences_of(case, *(replace(one, got=folded(one.got)) for one in (alone, beside))))
        seen = "" if differs else seen
    waited = (max(alone.started, default=0.0), max(beside.started, default=0.0))
    refused = "; ".join(said.partition(" ")[2] for said in alone.said if not said.startswith("0"))
    got = in_words(beside.got)
    return EditVerdict(release, backend, case.line, placed, differs, seen, got, waited, case.state, refused)


def differences_of(case: Case, alone: Edited, beside: Edited) -> Iterator[str]:
    for one, two in zip(alone.said, beside.said, strict=True):
        if one != two:
            yield f"said: {one!r} -> {two!r}"
    for key in sorted(alone.stands.keys() | beside.stands.keys()):
        was, now = alone.stands.get(key, "(none)"), beside.stands.get(key, "(none)")
        if was != now and (key in alone.changed or not _PINS.fullmatch(key)):
            yield f"stands: {key}: {was} -> {now}"
    if not case.anywhere and any(map(case.speaks_of, _PLACES)) and alone.where != beside.where:
        yield f"ran on: {alone.where} -> {beside.where}"
    if any(map(case.speaks_of, ("StartTime", "EligibleTime"))) and any(
        abs(begin - beside.begins.get(task, 0)) > SOON_S for task, begin in alone.begins.items()
    ):
        yield f"begins: {alone.begins} -> {beside.begins}"
    for soon, late in zip(alone.started, beside.started, strict=False):
        if late > max(soon, 0) + LATE_S:
            yield f"started {late:.0f} s after there was room, not {soon:.0f}"
    yield from differences(_counted(alone.got), _counted(beside.got))


def _counted(got: Got) -> Got:
    """Slurm counts ReqTRES anew at some edits and not at others: what a job has is in AllocTRES. Nor does it count who
    never ran, where a cancelled task had no record of its own."""
    facts = tuple({k: v for k, v in facts.items() if k != "ReqTRES"} for facts in got.facts)
    return replace(got, facts=facts, ends=tuple(end for end in got.ends if not end.startswith("CANCELLED 0:0")))
