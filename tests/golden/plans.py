"""What the scheduler decides about 2,000 drawn snapshots, and whether that has changed.

`python -m tests.golden.plans` compares with the digests in plans.txt; of a site whose decisions differ it prints the
first plan that does. `--against COMMIT` plans the same snapshots with that commit's code and prints both plans.
`--record` writes plans.txt anew: the commit that does so says which decisions changed, and why.

A site is drawn from its number and lives for ten cycles, in which jobs come, start as planned, move and end; so all
snapshots after the first that is decided otherwise may differ too. Each is planned as pald plans: with the memory of
the last plan, pins that have not started, what jobs are owed; then moves and exclusions. Floats count to nine digits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pal_slurm.model import Decision, Placement
from pal_slurm.policy import Plan
from pal_slurm.policy.exclusion import Exclusion
from tests.golden.drawn import Site

RECORDED = Path(__file__).with_name("plans.txt")
PROJECT = Path(__file__).resolve().parents[2]
SITES, CYCLES = 200, 10


def content(made: Plan, moves: Sequence[Decision], kept_off: Sequence[Exclusion]) -> dict[str, Any]:
    return {
        "decisions": [of_decision(d) for d in made.decisions],
        "reserved": [[r.job, r.start] for r in made.reserved],
        "wake_at": made.wake_at,
        "memory": made.memory.plain(),
        "moves": [of_decision(d) for d in moves],
        "excluded": [[e.job.id, e.nodes, e.worse, e.wait_s, e.declines] for e in kept_off],
    }


def of_placement(where: Placement | None) -> list[Any] | None:
    return None if where is None else [where.nodes, where.gpus, where.exact, where.partition, where.shard]


def of_decision(d: Decision) -> list[Any]:
    terms = d.terms and [d.terms.cost_s, d.terms.gain_s, d.terms.step_before, d.terms.partner, d.terms.makes_room_for]
    together = d.together and [d.together.job, d.together.factor, d.together.others, d.together.gain]
    where, slurms = of_placement(d.placement), of_placement(d.slurm_placement)
    weighed = [[p.pool, p.rate, p.price, p.cost_s, p.wait_s, p.free] for p in d.weighed]
    why = [d.action.value, d.reason.value, d.rank, d.until]
    return [d.job, d.task, *why, where, d.step_time, d.slurm_step_time, slurms, terms, weighed, together]


def plain(value: Any) -> Any:
    """As JSON can say it, whatever it is an array or a tuple of."""
    if isinstance(value, dict):
        return {str(key): plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(of) for of in value]
    return f"{value:.9g}" if isinstance(value, float | np.floating) else value


def plans(sites: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(site and cycle, the plan as a line of JSON) of each snapshot."""
    for number in sites:
        site = Site(number)
        for cycle in range(CYCLES):
            yield f"{number}.{cycle}", json.dumps(plain(content(*site.cycle())), sort_keys=True)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def differences(sites: Sequence[int]) -> dict[str, str]:
    """By site and cycle: the plans that are not as recorded."""
    recorded = dict(line.split() for line in RECORDED.read_text().splitlines())
    return {name: text for name, text in plans(sites) if recorded.get(name) != digest(text)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--print", action="store_true", help="each plan, a line of JSON")
    parser.add_argument("--against", metavar="COMMIT")
    options = parser.parse_args()
    if options.print:
        for name, text in plans(range(SITES)):
            print(name, text)
        return 0
    if options.record:
        RECORDED.write_text("".join(f"{name} {digest(text)}\n" for name, text in plans(range(SITES))))
        return 0
    if options.against:
        with tempfile.TemporaryDirectory() as home:
            tree = ["git", "-C", str(PROJECT), "worktree"]
            subprocess.run([*tree, "add", "-q", "--detach", home, options.against], check=True)
            try:
                told = subprocess.run(
                    [sys.executable, "-m", "tests.golden.plans", "--print"], cwd=home, check=True, capture_output=True,
                    text=True,
                ).stdout  # fmt: skip
            finally:
                subprocess.run([*tree, "remove", "--force", home], check=True)
        before = dict(line.split(" ", 1) for line in told.splitlines())
        found = {name: text for name, text in plans(range(SITES)) if before.get(name) != text}
    else:
        before, found = {}, differences(range(SITES))
    return tell(found, before)


def tell(found: dict[str, str], before: dict[str, str]) -> int:
    """Of each site the first plan that differs."""
    told = set[str]()
    for name, text in found.items():
        site = name.partition(".")[0]
        if site in told:
            continue
        told.add(site)
        after, was = json.loads(text), json.loads(before.get(name, "{}"))
        print(f"site.cycle {name}:")
        for part, value in after.items():
            if part not in was:
                print(f"  {part}: {value}")
            elif was[part] != value:
                print(f"  {part} was: {was[part]}\n  {part} now: {value}")
    print(f"{len(found)} of {SITES * CYCLES} plans differ, on {len(told)} of {SITES} sites")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
