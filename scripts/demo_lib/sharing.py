"""scripts/demo --sharing: sweeps that leave their GPU half idle. In: options, figures. Out: jobs, a table, a verdict.

Four arms on one slurm.conf whose GPUs have two shards each; nobody uses them but the last. What two on a GPU cost each
other is the clusters' own truth (palwork does it), and told to pald as an admin would.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from .cluster import Arm
from .figures import Figures
from .run import Ran
from .workload import APPS, BASE, DemoJob

SHARING = "sharing"
RUNS = {
    "stock": "Slurm alone: no pald, no leases",
    "packed": "pald, packed placement; every job has its GPUs to itself",
    "pal": "pald, pal; the same",
    SHARING: "the same, and two jobs that say pal:share may have one GPU",
}
NODES, JOBS_PER_NODE, LOAD, MEAN_S = 6, 12, 2.0, 30.0
MIX = {"pagerank": 0.45, "bert": 0.30, "resnet": 0.25}
ALONE = 0.15  # of the jobs: two or four GPUs, and no word of sharing
# How much longer a step takes beside another: a light, a middling and a heavy one, as Gavel's tables have them.
COSTS = {
    ("pagerank", "pagerank"): (1.15, 1.15),
    ("bert", "pagerank"): (1.2, 1.1),
    ("pagerank", "resnet"): (1.2, 1.3),
    ("bert", "bert"): (1.35, 1.35),
    ("bert", "resnet"): (1.5, 1.5),
    ("resnet", "resnet"): (1.95, 1.95),
}
WANTED = 0.9  # of `pal`'s average JCT


def up() -> tuple[str, ...]:
    costs = ",".join(f"{one}+{other}={a}/{b}" for (one, other), (a, b) in COSTS.items())
    return ("--shards", "2", "--pairs", costs)


def arms(told: Path) -> dict[str, Arm]:
    """pald is told the same costs in all arms; in one it may use them."""
    assert set(COSTS) == set(combinations_with_replacement(sorted(MIX), 2))
    made = {}
    for name in RUNS:
        if name != "stock":
            path = told.with_name(f"told-{name}.yaml")
            path.write_text(yaml.safe_dump(_told(name == SHARING), sort_keys=False))
            made[name] = Arm(("--policy", "pal" if name == SHARING else name, "--pal-yaml", str(path)))
    return made


def _told(enabled: bool) -> dict[str, object]:
    pairs = [{"app": x, "beside": y, "factor": a, "back": b} for (x, y), (a, b) in COSTS.items()]
    apps = {app: {"class": APPS[app], "base": {"a100": BASE[app]}} for app in MIX}
    return {"apps": apps, "sharing": {"enabled": enabled, "pairs": pairs}}


def make(jobs: int, gpus: int, seed: int, load: float, mean_s: float) -> list[DemoJob]:
    """`load`: GPU seconds offered over those that there are, if nobody shares."""
    rng = random.Random(seed)
    drawn = []
    for number in range(jobs):
        app = rng.choices(list(MIX), list(MIX.values()))[0]
        size = rng.choice((2, 4)) if rng.random() < ALONE else 1
        seconds = min(1.8, max(0.5, rng.lognormvariate(-0.045, 0.3))) * mean_s
        says = ("pal:share",) if size == 1 else ()
        drawn.append(DemoJob(number, 0.0, app, size, max(1, round(seconds / BASE[app])), says=says))
    span = sum(job.gpus * job.ideal_s for job in drawn) / (gpus * load)
    gaps = [rng.expovariate(1.0) for _ in drawn]
    at, made = 0.0, []
    for job, gap in zip(drawn, gaps, strict=True):
        at += gap * span / sum(gaps)
        made.append(replace(job, at=at))
    return made


def intro() -> str:
    costs = ", ".join(f"{x} beside {y} {a:g} ({b:g})" for (x, y), (a, b) in COSTS.items())
    return f"A step takes so many times as long on a shared GPU (the other one's): {costs}.\n"


def table(results: Mapping[str, Figures], ran: Mapping[str, Sequence[Ran]]) -> Table:
    shown = Table(title="Same jobs, same slurm.conf, two shards of each GPU", title_justify="left")
    for head in ("", "jobs done", "avg JCT", "p99 JCT", "makespan", "jobs beside another", "their steps, longer by"):
        shown.add_column(head, justify="right" if head else "left")
    base = results["stock"]
    for name, f in results.items():
        beside = [r.beside - 1 for r in ran[name] if r.beside > 1]
        shown.add_row(
            name, str(f.completed), f"{f.avg_jct_s:.1f} s ({f.avg_jct_s / base.avg_jct_s:.3f})", f"{f.p99_jct_s:.1f} s",
            f"{f.makespan_s:.1f} s ({f.makespan_s / base.makespan_s:.3f})", str(len(beside)),
            f"{sum(beside) / len(beside):.0%}" if beside else "-",
        )  # fmt: skip
    return shown


def verdict(console: Console, results: Mapping[str, Figures], ran: Mapping[str, Sequence[Ran]]) -> int:
    if len({f.completed for f in results.values()}) > 1:
        console.print("Not the same jobs were done: no result.")
        return 1
    strangers = [r.job.number for name, jobs in ran.items() for r in jobs if r.beside > 1 and not _may(name, r.job)]
    if strangers:
        console.print(f"Jobs {strangers} had a GPU with another without having said so: no result.")
        return 1
    ratio = results[SHARING].avg_jct_s / results["pal"].avg_jct_s
    better = ratio <= WANTED and all(
        results[SHARING].avg_jct_s < results[name].avg_jct_s for name in RUNS if name != SHARING
    )
    said = "at most" if ratio <= WANTED else "more than"
    console.print(
        f"With sharing the average JCT is {ratio:.3f} of pal's without, {said} {WANTED:g}; "
        f"{'the lowest of the four, with the same jobs done' if better else 'no gain on this run'}."
    )
    return 0 if better else 1


def _may(name: str, job: DemoJob) -> bool:
    return name == SHARING and "pal:share" in job.says
