"""scripts/demo --moves: pal without and with moves, on jobs that save. In: figures of both. Out: a table, a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from .cluster import Arm
from .figures import Figures
from .workload import LOAD_S, SAVE_S

MOVES = "moves"
RUNS = {
    "pal": "pald, pal placement: jobs stay where they started",
    MOVES: "the same, and running jobs are moved where that pays",
}
ARMS = {MOVES: Arm(("--policy", "pal", "--actuator", "move"))}
WANTED = 0.93  # of the average JCT without moves


def intro() -> str:
    return (
        f"Every job says pal:move: it saves on TERM ({SAVE_S:g} s) and goes on at the saved step ({LOAD_S:g} s to "
        "load); its log holds every step that it did.\n"
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
