"""scripts/demo --mixed: jobs on a cluster of three GPU models. In: options, figures. Out: jobs, tables, a verdict.

Which model suits whom: the two training applications run four to five times as fast on the newest model as on the
oldest, the third hardly minds. A GPU of the newest bills twice as much: only jobs that say pal:dearer may have it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from .cluster import Arm
from .figures import Figures
from .moving import MOVES
from .owed import by_account
from .run import Ran
from .workload import APPS, DemoJob

RUNS = {
    "stock": "Slurm alone: no pald, no leases",
    "packed": "pald, packed placement, blind to models",
    "pal": "pald, pal: pools by prices; jobs stay where they started",
    MOVES: "the same, and running jobs are moved where that pays",
    "gavel": "pald, gavel/hierarchical: who comes first goes by what his account is owed",
}
NODES = 12
SHARES = {"v100": 6, "a100": 4, "h100": 2}  # of twelve nodes; the first are what Slurm takes first
BILLS = {"v100": 1.0, "a100": 1.0, "h100": 2.0}
BASES = {
    "resnet": {"v100": 0.32, "a100": 0.16, "h100": 0.08},
    "bert": {"v100": 0.50, "a100": 0.20, "h100": 0.10},
    "pagerank": {"v100": 0.22, "a100": 0.20, "h100": 0.20},
}
MIX = {"resnet": 0.35, "bert": 0.25, "pagerank": 0.40}
SIZES = {1: 0.40, 2: 0.30, 4: 0.30}
ACCOUNTS = {"biology": 0.6, "chemistry": 0.3, "physics": 0.1}  # of the jobs
THRIFTY = 0.15  # of the jobs: they don't say pal:dearer
WANTED = {"pal": 0.85, MOVES: 0.75}  # of stock's average JCT


def models(nodes: int) -> dict[str, int]:
    """How many nodes are of each model."""
    whole = sum(SHARES.values())
    counts = {model: max(1, nodes * share // whole) for model, share in SHARES.items()}
    counts["v100"] += nodes - sum(counts.values())
    return counts


def model_of(nodes: int) -> dict[str, str]:
    """By node."""
    of = [model for model, count in models(nodes).items() for _ in range(count)]
    return {f"n{i}": model for i, model in enumerate(of, 1)}


def up(nodes: int) -> tuple[str, ...]:
    return ("--models", ",".join(f"{model}={count}" for model, count in models(nodes).items()))


def arms(told: Path) -> dict[str, Arm]:
    """pald is told the same, whatever it does."""
    more = ("--pal-yaml", str(_tell(told)))
    palds: dict[str, tuple[str, ...]] = {name: ("--policy", name, *more) for name in ("packed", "pal")}
    palds[MOVES] = ("--policy", "pal", "--actuator", "move", *more)
    palds["gavel"] = ("--policy", "gavel/hierarchical", *more)
    return {name: Arm(words) for name, words in palds.items()}


def _tell(path: Path) -> Path:
    """What an admin would write into pal.yaml."""
    far = {"rack": 1.1, "cluster": 1.3}
    apps = {app: {"class": APPS[app], "base": bases, "comm": dict(far)} for app, bases in BASES.items()}
    path.write_text(yaml.safe_dump({"apps": apps, "pools": {"dearer": "ask", "billing": BILLS}}, sort_keys=False))
    return path


def make(jobs: int, gpus: int, seed: int, load: float, mean_s: float, nodes: int) -> list[DemoJob]:
    """`load`: offered work over what the cluster does if every kind of job runs on all models alike."""
    rng = random.Random(seed)
    share = {model: count / nodes for model, count in models(nodes).items()}
    drawn = []
    for _ in range(jobs):
        app = rng.choices(list(MIX), list(MIX.values()))[0]
        size = rng.choices(list(SIZES), list(SIZES.values()))[0]
        seconds = min(1.8, max(0.5, rng.lognormvariate(-0.045, 0.3))) * mean_s
        drawn.append((app, size, max(1, round(seconds / BASES[app]["a100"])), rng.random() >= THRIFTY))
    blind = {app: sum(share[model] / bases[model] for model in share) for app, bases in BASES.items()}  # steps a second
    span = sum(size * steps / blind[app] for app, size, steps, _ in drawn) / (gpus * load)
    gaps = [rng.expovariate(1.0) for _ in drawn]
    owners = random.Random(seed + 1).choices(list(ACCOUNTS), list(ACCOUNTS.values()), k=jobs)
    at, made = 0.0, []
    for number, ((app, size, steps, dearer), gap, owner) in enumerate(zip(drawn, gaps, owners, strict=True)):
        at += gap * span / sum(gaps)
        words = ("pal:dearer",) if dearer else ()
        bases = tuple(BASES[app].items())
        made.append(DemoJob(number, at, app, size, steps, saves=True, bases=bases, says=words, account=owner))
    return made


def intro(nodes: int) -> str:
    has = ", ".join(f"{count} {model}" for model, count in models(nodes).items())
    return (
        f"Nodes by GPU model: {has}; a GPU of h100 bills twice as much, and {1 - THRIFTY:.0%} of the jobs say "
        "pal:dearer.\npald is told the applications' seconds per step on each model; Slurm knows nothing of them.\n"
    )


def table(results: Mapping[str, Figures]) -> Table:
    shown = Table(title="Same jobs, same slurm.conf, three GPU models", title_justify="left")
    for head in ("", "jobs done", "avg JCT", "p99 JCT", "makespan", "moves", "steps lost", "GPU time lost"):
        shown.add_column(head, justify="left" if not head else "right")
    base = results["stock"]
    for name, f in results.items():
        ratio = "" if name == "stock" else f" ({f.avg_jct_s / base.avg_jct_s:.3f})"
        shown.add_row(
            name, str(f.completed), f"{f.avg_jct_s:.1f} s{ratio}", f"{f.p99_jct_s:.1f} s", f"{f.makespan_s:.1f} s",
            str(f.moves), str(f.lost), f"{f.dead_share:.2%}",
        )  # fmt: skip
    return shown


def by_owner(ran: Mapping[str, Sequence[Ran]], nodes: int, gpus: int) -> Table:
    return by_account(ran, {model: count * gpus for model, count in models(nodes).items()}, model_of(nodes))


def by_app_and_model(ran: Mapping[str, Sequence[Ran]], nodes: int) -> Table:
    of = model_of(nodes)
    shown = Table(title="Average JCT (jobs), by application and the model where it ended", title_justify="left")
    for head in ("", "application", *SHARES):
        shown.add_column(head, justify="left" if head in ("", "application") else "right")
    for name, jobs in ran.items():
        for app in BASES:
            each = [[r.jct_s for r in jobs if r.job.app == app and of[r.places[0][0]] == m] for m in SHARES]
            cells = (f"{sum(s) / len(s):.0f} s ({len(s)})" if s else "-" for s in each)
            shown.add_row(name if app == next(iter(BASES)) else "", app, *cells)
    return shown


def too_dear(jobs: Sequence[Ran], nodes: int) -> int:
    """Jobs that got a dearer model than they may have."""
    of, least = model_of(nodes), min(BILLS.values())
    return sum(
        any(BILLS[of[node]] > least for node, _ in r.places) and "pal:dearer" not in r.job.says for r in jobs
    )  # fmt: skip


def verdict(console: Console, results: Mapping[str, Figures], ran: Mapping[str, Sequence[Ran]], nodes: int) -> int:
    dear = {name: too_dear(jobs, nodes) for name, jobs in ran.items()}
    console.print("Jobs on a dearer model than they may have: " + ", ".join(f"{n} {d}" for n, d in dear.items()) + ".")
    ours = [name for name in results if name != "stock"]
    if len({f.completed for f in results.values()}) > 1 or any(results[name].lost for name in ours):
        console.print("Not the same work was done, or saved steps were lost: no result.")
        return 1
    good = not any(dear[name] for name in ours)
    for name, most in WANTED.items():
        ratio = results[name].avg_jct_s / results["stock"].avg_jct_s
        good &= ratio <= most
        said = "at most" if ratio <= most else "more than"
        console.print(f"{name}: average JCT is {ratio:.3f} of stock's, {said} {most}.")
    return 0 if good else 1
