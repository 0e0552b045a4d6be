"""docs/shapes.md from verdicts. In: a Verdict per row, release and backend. Out: Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.slurm.shapes.compare import EXCEPTIONS
from tests.slurm.shapes.options import APART, RELEASES
from tests.slurm.shapes.rows import all_rows, rows_for
from tests.slurm.verdicts.page import by_line, cell, code, newest, safe, summary
from tests.slurm.verdicts.verdict import Verdict

COMMAND = "python -m tests.slurm.shapes --write docs/shapes.md"
_HEAD = f"""# Every shape of job, with pald and without

The proof that pald takes nothing from a job. Each line below was submitted by a user to a real cluster, once as if
pald did not exist, then with pald beside it, on each release of Slurm and through each backend. Compared are: nodes,
GPUs, CPUs and memory; all else that Slurm says of the job in its record; states, exit codes and time limits; every
variable of Slurm's and of the GPUs in the environment of the script and of every task (devices are counted); what
`srun` inside gets and how it ends; whether two steps at once have GPUs of their own. Left out are ids, times, which
limit Slurm's own passes choose with --time-min, and the names of nodes and devices: these are what pald is there to
choose, and the scores are such that it chooses others than Slurm alone would.

What becomes of these jobs when they are edited while they wait: [every edit](edits.md).

`{COMMAND}` runs all of it and writes this page;
`tests/slurm/test_pald_shapes.py` runs a third through one backend in CI, by turns (`PAL_TEST_TURN=0` to `5` asks for
one), and all with `--slow`.
"""
_KEY = """
Placed by `slots`: pald chose nodes and devices; by `nodes`: the nodes; `plain`: pald let Slurm choose; `none`: pald
left it alone from the start, or it asks for no GPU ([placement](placement.md) says why). Where slots can't be asked for
(22.05), `slots` are `nodes`. `-`: that release has no such option. `waits`: how much longer the slowest job of the row
waited than without pald, in seconds of Slurm's clock, with 80 jobs submitted at once.

`{part}`: the row's partition, `{first}` `{second}`: nodes of it, `{rack}`: their rack, `{before}`: an earlier job,
`{resv}`: a reservation, `{file}`: a file with a node's name. Behind `=>` stands what `srun` in the script is given,
instead of the usual.
"""


def page(verdicts: Sequence[Verdict]) -> str:
    return "\n".join([_HEAD, *_summary(verdicts), _KEY, *_tables(verdicts), *_apart()]) + "\n"


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield from summary(verdicts, "rows", EXCEPTIONS)
    refused = {v.line for v in verdicts if v.got.startswith("refused")}
    yield f"- {len(refused)} of the rows are refused by Slurm somewhere, with the same words with and without pald."


def _tables(verdicts: Sequence[Verdict]) -> Iterator[str]:
    found = by_line(verdicts)
    for topic, rows in groupby(all_rows(), key=lambda row: row.topic):
        yield f"\n## {topic}\n"
        yield "| sbatch, if nothing else is said | what it got | placed | " + " | ".join(RELEASES) + " | waits |"
        yield "|---|---|---|" + "---|" * (len(RELEASES) + 1)
        for row in rows:
            yield _line(row.name, found.get(row.name, []))


def _line(name: str, verdicts: Sequence[Verdict]) -> str:
    last = newest(verdicts)
    got = last[0].got if last else ""
    placed = ", ".join(sorted({v.placed for v in last}))
    cells = [
        cell([v for v in verdicts if v.release == release], asked=name in {row.name for row in rows_for(release)})
        for release in RELEASES
    ]
    longer = max((v.waited[1] - v.waited[0] for v in verdicts), default=0)
    return f"| {code(name)} | {safe(got)} | {placed} | {' | '.join(cells)} | {max(longer, 0):.0f} |"


def _apart() -> Iterator[str]:
    yield "\n## Options that no row holds\n"
    yield "All others of the man pages of sbatch, salloc and srun are in a row above (`tests/unit/test_shapes.py`).\n"
    yield "| why | options |"
    yield "|---|---|"
    yield from (f"| {why} | {', '.join(f'`--{name}`' for name in names.split())} |" for why, names in APART.items())
