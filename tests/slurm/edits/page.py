"""docs/edits.md from verdicts. In: a Verdict per case, release and backend. Out: Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.slurm.edits.compare import EXCEPTIONS, LATE_S, EditVerdict
from tests.slurm.edits.fields import APART
from tests.slurm.edits.rows import STATES, all_cases, cases_for
from tests.slurm.shapes.options import RELEASES
from tests.slurm.verdicts.page import by_line, cell, code, newest, safe, summary

COMMAND = "python -m tests.slurm.edits --write docs/edits.md"
_HEAD = f"""# Every edit of a waiting job, with pald and without

The sibling of [every shape of job](shapes.md): there stands what users submit, here what they, or an admin, do with a
job while it waits. Each line below was said to a job on a real cluster, once as if pald did not exist, then with
pald beside it, in each state that a job of ours can be in. Compared are Slurm's answer, word by word; what stands in
the job's record when Slurm and pald have had time to look at it; and, when there is room, where it runs (if the line
names nodes), what it gets, all that Slurm says of it, its environment and that of its tasks, how it ends
([the same things as for shapes](shapes.md)), and that it starts no more than {LATE_S:.0f} s later.

`{COMMAND}` runs all of it and writes this page (`--keep FILE` goes on where it was broken
off); `tests/slurm/test_pald_edits.py` runs a part in CI, by turns, and all with `--slow`.
"""
_KEY = """
`said`: to `scontrol update jobid=...`, or the command itself; one of one GPU, or what stands before `|`, was submitted.
Behind `/` stands what is said when there is room, so that it starts at all; with `admin:` root says it, else the job's
user. `{first}` `{second}`: the nodes that the job may have, `{also}`: a partition of the second alone, `{resv}`: a
reservation of it, `{ahead}`: a job that runs. `-`: not tried in that state; `not run`: not yet,
when this page was written.
"""


def page(verdicts: Sequence[EditVerdict]) -> str:
    return "\n".join([_HEAD, *_states(), *_summary(verdicts), _KEY, *_tables(verdicts), *_apart()]) + "\n"


def _states() -> Iterator[str]:
    yield "| state | the job |"
    yield "|---|---|"
    yield from (f"| {state} | {what} |" for state, what in STATES.items())
    yield ""


def _summary(verdicts: Sequence[EditVerdict]) -> Iterator[str]:
    yield from summary(verdicts, "edits", EXCEPTIONS)
    refused = sum(bool(v.refused) for v in verdicts)
    yield f"- {refused} times Slurm refuses, with the same words with and without pald."
    later = sorted(v.waited[1] - v.waited[0] for v in verdicts)
    if later:
        half, most = later[len(later) // 2], later[-1]
        yield f"- With pald a job starts {half:.1f} s later in the middle, {most:.1f} s at most, with 35 at once."


def _tables(verdicts: Sequence[EditVerdict]) -> Iterator[str]:
    found = by_line(verdicts)
    for topic, cases in groupby(all_cases(), key=lambda case: case.topic):
        yield f"\n## {topic}\n"
        yield "| said | what comes of it | " + " | ".join(STATES) + " |"
        yield "|---|---|" + "---|" * len(STATES)
        for case in cases:
            mine = found.get(case.line, [])
            cells = [_cell(case.line, state, [v for v in mine if v.state == state]) for state in STATES]
            yield f"| {code(case.line)} | {_outcome(mine)} | " + " | ".join(cells) + " |"


def _outcome(verdicts: Sequence[EditVerdict]) -> str:
    last = newest(verdicts)
    if not last:
        return ""
    said = last[0].refused
    return safe(f"refused: {said}" if said else last[0].got)


def _cell(line: str, state: str, verdicts: Sequence[EditVerdict]) -> str:
    asked = any(case.line == line for release in RELEASES for case in cases_for(release, state))
    return cell(verdicts, asked=asked)


def _apart() -> Iterator[str]:
    yield "\n## Fields that no row holds\n"
    yield "All others that `scontrol update` knows for a job are in a row above (`tests/unit/test_edits_rows.py`).\n"
    yield "| why | fields |"
    yield "|---|---|"
    for why, names in APART.items():
        yield f"| {why} | {', '.join(code(name) for name in names.split())} |"
