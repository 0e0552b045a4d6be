"""scripts/demo --moves: pal without and with moves, on jobs that save. In: a seed; figures. Out: jobs; a verdict.

Sweeps of one-GPU jobs fill most of the cluster now and then and end one by one, while jobs of whole nodes come all the
time: GPUs are free, but on no node all of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from .cluster import Arm
from .figures import Figures
from .workload import BASE, LOAD_S, MIX, SAVE_S, DemoJob

MOVES = "moves"
RUNS = {
    "pal": "pald, pal placement: jobs stay where they started",
    MOVES: "the same, and running jobs are moved where that pays",
}
ARMS = {MOVES: Arm(("--policy", "pal", "--actuator", "move"))}
WANTED = 0.93  # of the average JCT without moves
NODES, JOBS_PER_NODE, LOAD, MEAN_S = 8, 9.75, 1.0, 24.0  # of whole-node jobs
SWEEPS, IN_SWEEPS = 2, 2 / 3  # of all jobs; so each sweep is for four fifths of the GPUs
LONGER = 5.0  # a sweep's jobs, than those of whole nodes
TWO_NODES = 0.2  # of the jobs of whole nodes
GAP_S = 0.25  # between two submissions of a sweep


def make(jobs: int, gpus: int, seed: int, load: float, mean_s: float) -> list[DemoJob]:
    """`load`: offered GPU-seconds per GPU-second while jobs arrive. A sweep's jobs are of one application."""
    rng = random.Random(seed)
    each = round(jobs * IN_SWEEPS / SWEEPS)
    sweeps = [(_app(rng), [_length(rng, 0.8, 0.2, 3.0) * LONGER for _ in range(each)]) for _ in range(SWEEPS)]
    wide = [
        (_app(rng), 8 if rng.random() < TWO_NODES else 4, _length(rng, 0.45, 0.4, 2.0))
        for _ in range(jobs - SWEEPS * each)
    ]
    work = mean_s * (sum(map(sum, (lengths for _, lengths in sweeps))) + sum(size * long for _, size, long in wide))
    span = work / (gpus * load)
    drawn = [
        (span * number / SWEEPS + GAP_S * i, app, 1, length)
        for number, (app, lengths) in enumerate(sweeps)
        for i, length in enumerate(lengths)
    ]
    gaps = [rng.expovariate(1.0) for _ in wide]
    at = 0.0
    for (app, size, length), gap in zip(wide, gaps, strict=True):
        at += gap * span / sum(gaps)
        drawn.append((at, app, size, length))
    return [
        DemoJob(number, at, app, size, max(1, round(length * mean_s / BASE[app])), saves=True)
        for number, (at, app, size, length) in enumerate(sorted(drawn))
    ]


def _app(rng: random.Random) -> str:
    return rng.choices(list(MIX), list(MIX.values()))[0]


def _length(rng: random.Random, spread: float, least: float, most: float) -> float:
    """1 in the mean, but for what is cut off."""
    return min(most, max(least, rng.lognormvariate(-(spread**2) / 2, spread)))


def intro() -> str:
    return (
        f"{SWEEPS} sweeps of one-GPU jobs, which end one by one; jobs of one or two whole nodes, a fifth as long, "
        f"come all the time.\nEvery job says pal:move: it saves on TERM ({SAVE_S:g} s) and goes on at the saved step "
        f"({LOAD_S:g} s to load); its log holds every step that it did.\n"
    )


def table(results: Mapping[str, Figures]) -> Table:
    shown = Table(title="Same jobs, same slurm.conf, without and with moves", title_justify="left")
    heads = ("", "jobs done", "avg JCT", "p99 JCT", "makespan", "moves", "steps twice", "steps lost", "GPU time lost")
    for head in heads:
        shown.add_column(head, justify="left" if not head else "right")
    base = results["pal"]
    for name, f in results.items():
        ratio = "" if name == "pal" else f" ({f.avg_jct_s / base.avg_jct_s:.3f})"
        shown.add_row(
            name, str(f.completed), f"{f.avg_jct_s:.1f} s{ratio}", f"{f.p99_jct_s:.1f} s", f"{f.makespan_s:.1f} s",
            str(f.moves), str(f.twice), str(f.lost), f"{f.dead_share:.2%}",
        )  # fmt: skip
    shown.caption = (
        "steps twice: done again, as they came after the last save.  steps lost: saved and done anew, or never done.\n"
        "GPU time lost: between a mover's last step and its next, over that at work."
    )
    return shown


def verdict(console: Console, results: Mapping[str, Figures]) -> int:
    still, moved = results["pal"], results[MOVES]
    ratio = moved.avg_jct_s / still.avg_jct_s
    if still.completed != moved.completed or still.lost or moved.lost:
        console.print("Not the same work was done, or saved steps were lost: no result.")
        return 1
    good = ratio <= WANTED
    console.print(
        f"{moved.moves} moves; average JCT with moves is {ratio:.3f} of without, "
        f"{'at most' if good else 'more than'} {WANTED}; the same jobs done, no saved step lost."
    )
    return 0 if good else 1
