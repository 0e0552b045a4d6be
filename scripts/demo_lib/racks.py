"""scripts/demo --racks: who waits for GPUs close together, and whether it pays. In: figures. Out: tables, a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from .cluster import Arm
from .figures import Figures
from .workload import COMM, TIERS

RACK_SIZE = 4  # nodes
LOAD, MEAN_S, SEED = 0.7, 40.0, 12
LEASES = 15  # of Dally's in a mean job: what an hour is to the jobs of the simulated grid (docs/results.md)
RUNS = {
    "stock": "Slurm alone, with topology/tree",
    "switches": "the same, every job with --switches=1@300",
    "packed": "pald, packed placement: the narrowest span that is free",
    "dally": "pald, Dally's rule: timers tuned by past waits",
    "pal": "pald, pal placement: waits where that brings more than it costs",
}


def arms(mean_s: float) -> dict[str, Arm]:
    """Dally's timers are as short as the jobs are."""
    lease_s = max(1, round(mean_s / LEASES))
    return {
        "switches": Arm(None, ("--switches=1@300",)),
        "dally": Arm(("--policy", "dally", "--patience", f"dally({lease_s},24,6,12)", *told())),
        **{name: Arm(("--policy", name, *told())) for name in ("packed", "pal")},
    }


def told() -> tuple[str, ...]:
    """pald knows what distance costs, as a site tells it in pal.yaml."""
    return ("--comm", ",".join(f"{app}={'/'.join(map(str, costs))}" for app, costs in COMM.items()))


def intro() -> str:
    costs = ", ".join(f"{app} {' / '.join(f'{cost:g}' for cost in costs)}" for app, costs in COMM.items())
    return (
        f"Racks of {RACK_SIZE} nodes. A step takes so many times as long in a node / a rack / across racks: {costs}.\n"
    )


def table(results: Mapping[str, Figures]) -> Table:
    shown = Table(title="Same jobs, same slurm.conf, same topology.conf", title_justify="left")
    for head in ("", "jobs done", "avg JCT", "p99 JCT", "makespan", "across racks", "lost to distance"):
        shown.add_column(head, justify="left" if not head else "right")
    base = results["stock"]
    for name, f in results.items():
        wide = sum(spans["cluster"].jobs for spans in f.by_span.values())
        lost = sum(span.talked_s for spans in f.by_span.values() for span in spans.values())
        shown.add_row(
            name, str(f.completed), f"{f.avg_jct_s:.1f} s ({f.avg_jct_s / base.avg_jct_s - 1:+.1%})",
            f"{f.p99_jct_s:.1f} s", f"{f.makespan_s:.1f} s ({f.makespan_s / base.makespan_s - 1:+.1%})",
            f"{wide} jobs", f"{lost:.0f} s",
        )  # fmt: skip
    shown.caption = "lost to distance: what the jobs' run times would be less by, were all GPUs of each in one node."
    return shown


def by_span(results: Mapping[str, Figures]) -> Table:
    shown = Table(title="Time in communication, by application and span", title_justify="left")
    for head in ("", *(f"{app}\n{tier}" for app in COMM for tier in TIERS)):
        shown.add_column(head, justify="right" if head else "left")
    for name, f in results.items():
        spans = [f.by_span[app][tier] for app in COMM for tier in TIERS]
        shown.add_row(name, *(f"{span.talked_s:.0f} s ({span.jobs})" for span in spans))
    shown.caption = "seconds lost by all its jobs of that span (and how many they are); jobs of one GPU are left out."
    return shown


def verdict(console: Console, results: Mapping[str, Figures]) -> int:
    pal = results["pal"]
    if len({f.completed for f in results.values()}) > 1:
        console.print("Not the same jobs were done: no result.")
        return 1
    better = [name for name, f in results.items() if f.avg_jct_s < pal.avg_jct_s]
    if better:
        console.print(f"The average JCT of {', '.join(better)} is lower than that of pal: no gain on this run.")
        return 1
    console.print("pal's average JCT is at or below that of each of the others, with the same jobs done.")
    return 0
