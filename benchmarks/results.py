"""Prints docs/results.md anew: `python -m benchmarks.results [PART ...]`. All parts take hours; `--list` names them.

A part of the page stands between `<!-- part: NAME -->` and `<!-- end -->`, and is replaced by what its commands print.
The tables of simulations have the same columns, taken from the JSON of `python -m benchmarks.published`: ratios are to
the first row, seed by seed. A program that ends with 1 tells of a bound that is not kept, and is printed too; a part
that fails otherwise keeps its old text, and the exit code is 1. Data: ../shared/data from the
project's root, or $PAL_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "results.md"
DATA = Path(os.environ.get("PAL_DATA", PROJECT / "../shared/data"))
SIZES = ("1", "2-4", "5-8", "9-16", ">16")
HEAD = ("policy", "actuator", "mean JCT", "ratio", "99 % JCT", "makespan", "moves a job", *SIZES)
NOT_OURS = "not in pald"


class Row(NamedTuple):
    """`policy`: a name, or the lines of a policy file."""

    label: str
    actuator: str  # what a site needs for it
    policy: str
    options: str = ""


class Table(NamedTuple):
    """Policies on one world, by `python -m benchmarks.published`. The others are compared with the first row."""

    world: str  # its arguments
    rows: tuple[Row, ...]


class Program(NamedTuple):
    """Something that prints its own part, as Markdown or as text."""

    command: str
    markdown: bool = False


PACKED = Row("packed", "pin", "packed")
STAY = (PACKED, Row("pal", "pin", "pal", "--movable 0"))
OURS = (
    *STAY,
    Row("pal, a quarter movable", "move", "pal", "--movable 0.25"),
    Row("pal, all movable", "move", "pal", "--movable 1"),
)
# By class: the measured run times that PAL's artifact takes.
LONGHORN = {"A": "resnet", "B": "bert", "C": "bert", "D": "pagerank"}
SPREAD = "--cluster 16x4 " + " ".join(
    f"--profile {cls}=DATA/pal/longhorn/{name}-longhorn-agg.csv" for cls, name in LONGHORN.items()
)
SIA = f"{SPREAD} --tracked 160 --restart-cost 60 --locality 1.7 --repeat 5"
MODELS = "--format gavel --throughputs DATA/gavel/simulation_throughputs.json --cluster v100:36x1+p100:36x1+k80:36x1"
MODELS += " --restart-cost 60 --first-start-cost"
MIXED = (
    PACKED,
    Row("Gavel's own loop (LAS)", NOT_OURS, "artifact/gavel-las", "--movable 1"),
    OURS[1],
    Row("gavel/max-min", "pin", "gavel/max-min", "--movable 0"),
    *OURS[2:],
)
RACKS = "--cluster 16x4/4 --limit-factor 2 --load 0.75 --repeat 5"
WAITS = (*STAY[:1], Row("dally", "pin", "dally", "--movable 0"), *STAY[1:])

PARTS: Mapping[str, Table | Program] = {
    "published": Program("python -m benchmarks.paper.paper_traces", markdown=True),
    "profiles": Program("python -m benchmarks.paper.paper_profiles", markdown=True),
    "by-size": Program("python -m benchmarks.paper.paper_moves", markdown=True),
    **{
        f"sia-philly-{n}": Table(
            f"DATA/pal/traces/artifact_jobs_w{n}.csv {SIA}",
            (*OURS, Row("PAL's own loop", NOT_OURS, "artifact/pal", "--movable 1 --round 360")),
        )
        for n in (1, 2, 3, 4)
    },
    "philly": Table("DATA/traces/philly.csv --cluster 64x8 --limit-factor 2 --restart-cost 60", STAY),
    "gavel-4.0": Table(f"DATA/gavel/traces/continuous_single_rate4.0_seed0.tsv {MODELS} --tracked 4000-4999", MIXED),
    "gavel-5.6": Table(f"DATA/gavel/traces/continuous_single_rate5.6_seed0.tsv {MODELS} --tracked 4000-4999", MIXED),
    "gavel-multi": Table(f"DATA/gavel/traces/continuous_multi_rate2.6_seed0.tsv {MODELS} --tracked 2000-2999", MIXED),
    "bounds": Program("python -m benchmarks.fluid_bounds"),
    "racks-flat": Table(f"synthetic:jobs=500 {RACKS}", WAITS),
    "racks-strong": Table(
        f"synthetic:jobs=500 {RACKS} --comm DATA/traces/derived/artistsim_tier_slowdowns.csv:*", WAITS
    ),
    "racks-gavel": Table(
        f"synthetic:jobs=500 {RACKS} --comm DATA/traces/derived/gavel_consolidation_penalty.csv:v100/*", WAITS
    ),
    "forecasts": Program("python -m pytest -q -s tests/unit/test_start_forecast.py -k near"),
    "demo": Program("scripts/demo"),
    "demo-moves": Program("scripts/demo --moves"),
    "demo-racks": Program("scripts/demo --racks"),
    "demo-mixed": Program("scripts/demo --mixed"),
    "demo-sharing": Program("scripts/demo --sharing"),
    "twin": Program("python -m benchmarks.twin"),
    "speed": Program("python -m benchmarks.bench_sim"),
    "planning": Program("python -m benchmarks.bench_planning"),
    "deciding": Program("python -m benchmarks.bench_entitlements"),
}


def printed(name: str, part: Table | Program) -> str:
    """What stands on the page: the command, and what it prints."""
    if isinstance(part, Program):
        out = _run(shlex.split(part.command), may_miss=True).strip()
        return f"    $ {part.command}\n\n" + (out if part.markdown else f"```\n{out}\n```")
    lines: list[Sequence[str]] = [HEAD, ["---"] * len(HEAD)]
    base: Mapping[str, Any] = {}
    with tempfile.TemporaryDirectory() as at:
        into = Path(at) / "rows.json"
        for rows, command in commands(part):
            _run([*shlex.split(command.replace("DATA", str(DATA))), "--json", str(into)])
            first, *others = json.loads(into.read_text())
            if not base:
                base = first
                lines.append(_cells(part.rows[0], first, base, seeds=True))
            lines += [
                _cells(row, got, base, seeds=first["avg_jct_s"] == base["avg_jct_s"])
                for row, got in zip(rows, others, strict=True)
            ]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"    $ python -m benchmarks.results {name}\n\n{table}"


def commands(part: Table) -> Iterator[tuple[list[Row], str]]:
    """One for each set of options: the first row, and those rows of the table."""
    first = part.rows[0]
    for options, group in groupby(part.rows[1:], key=lambda row: row.options):
        rows = list(group)
        policies = "".join(f" --policy {row.policy}" for row in (first, *rows))
        yield rows, f"python -m benchmarks.published {part.world} {options}{policies}"


def _cells(row: Row, got: Mapping[str, Any], base: Mapping[str, Any], *, seeds: bool) -> list[str]:
    """`seeds`: its command had the same first row, seed by seed; else the means are compared."""

    def ratio(name: str) -> str:
        told = got["ratio_to_first"][name] if seeds else None
        if told is None or told["ci95"] is None:
            return f"{got[name] / base[name]:.3f}"
        return f"{told['mean']:.3f} ±{told['ci95']:.3f}"

    sizes = {of["gpus"]: of["avg_jct_s"] for of in got["sizes"]}
    packed = {of["gpus"]: of["avg_jct_s"] for of in base["sizes"]}
    return [
        row.label,
        row.actuator,
        f"{got['avg_jct_s'] / 3600:.2f} h",
        *(ratio(name) for name in ("avg_jct_s", "p99_jct_s", "makespan_s")),
        f"{(got['moves'] + got['restarts']) / got['jobs']:.2f}",
        *(f"{sizes[size] / packed[size]:.3f}" if size in sizes and size in packed else "" for size in SIZES),
    ]


def _run(command: Sequence[str], *, may_miss: bool = False) -> str:
    words = [sys.executable, *command[1:]] if command[0] == "python" else list(command)
    done = subprocess.run(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in ((0, 1) if may_miss else (0,)):
        print(f"exit code {done.returncode}: {shlex.join(command)}\n{done.stdout[-2000:]}", file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, list(command))
    return done.stdout


def put(page: str, name: str, text: str) -> str:
    """The page with another text for this part."""
    found = re.compile(rf"(<!-- part: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    page, n = found.subn(lambda at: f"{at[1]}\n{text}\n\n{at[2]}", page)
    if n != 1:
        raise SystemExit(f"{PAGE.name}: part {name} stands there {n} times, not once between its two marks.")
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="all, if none is given")
    parser.add_argument("--list", action="store_true", help="the names of the parts")
    parser.add_argument("--show", action="store_true", help="the commands of the parts; nothing is run")
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"there is no part {unknown[0]!r}; choose of {', '.join(PARTS)}")
    if options.list:
        print("\n".join(PARTS))
        return 0
    if options.show:
        for part in map(PARTS.__getitem__, options.parts or PARTS):
            lines = [part.command] if isinstance(part, Program) else [command for _, command in commands(part)]
            print("\n".join(lines).replace("DATA", os.path.relpath(DATA)))
        return 0
    failed = []
    for name in options.parts or PARTS:
        print(f"{name} ...", flush=True)
        try:
            text = printed(name, PARTS[name])
        except subprocess.CalledProcessError:
            failed.append(name)
            continue
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")
    if failed:
        print(f"kept as they were, their commands failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
