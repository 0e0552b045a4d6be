"""scripts/demo: stock Slurm, pald with packed placement, pald with pal; one seeded workload, one slurm.conf.

Other stories with the same means: --moves, --racks, --mixed, --sharing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import mixed, moving, racks, sharing, workload
from . import speeds as speeds_of
from .arms import play
from .cluster import Arm, Miniclusters, Place
from .figures import Figures, figures
from .machine import Work
from .shown import shown
from .standing import spec_of, standing

WORN_SHARE = 0.25
ADDED = {
    "cards": "plus two lasting slow cards (1.3x, 1.5x), as surveys report",
    "measured": "nothing added",
    "worn": "plus a quarter of the nodes slow (1.4x to 1.6x), as where a rack's cooling fails",
}
RUNS = {
    "stock": "Slurm alone: no pald, no leases",
    "packed": "pald, packed placement: what starting jobs through pald does by itself",
    "pal": "pald, pal placement: the least step time",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--here", type=Path, metavar="DIR", help="on this host's cluster, whose directory this is")
    parser.add_argument("--moves", action="store_true", help="pal without and with moves, on jobs that save and resume")
    racks_help = "Slurm with and without --switches, packed, dally and pal, on racks whose distance costs what it costs"
    parser.add_argument("--racks", action="store_true", help=racks_help)
    parser.add_argument("--mixed", action="store_true", help="three GPU models: stock, packed, pal, with moves, gavel")
    parser.add_argument(
        "--sharing", action="store_true", help="two jobs on one GPU: stock, packed, pal, pal with sharing"
    )
    parser.add_argument("--slurm", default="26.05", choices=["native", "24.11", "26.05"])
    spread_help = "measured: no slow cards; worn: a quarter of the nodes is slow"
    parser.add_argument("--spread", choices=["cards", "measured", "worn"], default="cards", help=spread_help)
    parser.add_argument("--profiled", action="store_true", help="scores measured by palctl profile run, not imported")
    parser.add_argument("--in-turn", action="store_true", help="one arm after the other, not side by side")
    parser.add_argument("--jobs", type=int, help="default: 4.5 per node; 9.75 with --moves")
    parser.add_argument(
        "--load", type=float, help="offered while jobs arrive (1.4; --moves 1.0, --racks 0.7, --mixed 1.2)"
    )
    parser.add_argument(
        "--mean", type=float, help="mean length of a job in seconds (36; 10 with --here; 24 with --moves)"
    )
    parser.add_argument("--seed", type=int, help="default: 2; 12 with --racks")
    parser.add_argument("--nodes", type=int, help="default: 16; 8 with --moves, 12 with --mixed")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep pald's logs, its database and the jobs' output")
    known = sorted({*RUNS, *moving.RUNS, *racks.RUNS, *mixed.RUNS, *sharing.RUNS})
    parser.add_argument("--only", choices=known, action="append", help="leave runs out")
    options = parser.parse_args()
    if options.moves + options.racks + options.mixed + options.sharing > 1:
        parser.error("--moves, --racks, --mixed and --sharing are four stories: choose one")
    stories = ((options.moves, moving.RUNS), (options.racks, racks.RUNS), (options.mixed, mixed.RUNS))
    options.runs = next((runs for chosen, runs in (*stories, (options.sharing, sharing.RUNS)) if chosen), RUNS)
    options.seed = options.seed if options.seed is not None else racks.SEED if options.racks else 2
    sizes = ((options.moves, moving.NODES), (options.mixed, mixed.NODES), (options.sharing, sharing.NODES))
    options.nodes = options.nodes or next((nodes for chosen, nodes in sizes if chosen), 16)
    if wrong := set(options.only or ()) - set(options.runs):
        parser.error(f"--only {wrong.pop()}: the runs are {', '.join(options.runs)}")
    for word in ("moves", "racks", "mixed", "sharing", "profiled"):
        if options.here and getattr(options, word):
            parser.error(f"--{word} needs mini-clusters of its own; leave --here out")
    if options.here:
        spec = spec_of(options.here)
        options.slurm, options.nodes, options.gpus = spec.release, spec.nodes, spec.gpus
    per_node = moving.JOBS_PER_NODE if options.moves else sharing.JOBS_PER_NODE if options.sharing else 4.5
    options.jobs = options.jobs or max(8, round(per_node * options.nodes))
    if options.load is None:
        loads = ((options.moves, moving.LOAD), (options.racks, racks.LOAD), (options.mixed, 1.2))
        options.load = next((load for chosen, load in (*loads, (options.sharing, sharing.LOAD)) if chosen), 1.4)
    if options.mean is None:  # one cluster has to run the arms in turn
        means = ((options.here, 10.0), (options.moves, moving.MEAN_S), (options.racks, racks.MEAN_S))
        more = ((options.mixed, 45.0), (options.sharing, sharing.MEAN_S))
        options.mean = next((mean for chosen, mean in (*means, *more) if chosen), 36.0)
    for path in (options.json, options.keep):  # said now, and not when all is done
        if path and not path.absolute().parent.is_dir():
            parser.error(f"{path}: there is no directory {path.absolute().parent}")
    if min(options.jobs, options.nodes, options.gpus) < 1 or min(options.load, options.mean) <= 0:
        parser.error("--jobs, --nodes and --gpus are at least 1, --load and --mean more than 0")
    return options


def main() -> int:
    options = arguments()
    console = Console()
    if not console.is_terminal:  # a log: lines may be as long as the tables need
        console = Console(width=120)
    worn = WORN_SHARE if options.spread == "worn" else 0.0
    speeds = speeds_of.make(options.nodes, options.gpus, options.seed, options.spread == "cards", worn)
    gpus = options.nodes * options.gpus
    drawn = (options.jobs, gpus, options.seed, options.load, options.mean)
    jobs = _jobs(options, drawn)
    console.print(_intro(options, speeds, jobs))
    with tempfile.TemporaryDirectory(prefix="pal-demo-", dir="/home" if options.here else None) as directory:
        state = (options.keep or Path(directory)).resolve()
        state.mkdir(exist_ok=True)
        state.chmod(0o755)
        speeds_of.write(speeds, state / "speeds.json", state / "scores.csv")
        work = Work()
        with _place(options, state) as place, shown(console, len(jobs)) as ticks:
            ran = play(place, options.only or list(options.runs), jobs, state, ticks)
        results = {name: figures(of_arm, speeds) for name, of_arm in ran.items()}
    if options.only:
        console.print({name: f.as_json() for name, f in results.items()})
        return 0
    if options.mixed:
        console.print(mixed.table(results), mixed.by_app_and_model(ran, options.nodes))
        console.print(mixed.by_owner(ran, options.nodes, options.gpus))
    elif options.sharing:
        console.print(sharing.table(results, ran), _by_class(results))
    else:
        table = moving.table if options.moves else racks.table if options.racks else _table
        console.print(table(results), racks.by_span(results) if options.racks else _by_class(results))
    console.print(work.told(max(f.late for f in results.values())))
    if options.json:
        options.json.write_text(json.dumps({n: f.as_json() for n, f in results.items()}, indent=1) + "\n")
    if options.mixed:
        return mixed.verdict(console, results, ran, options.nodes)
    if options.sharing:
        return sharing.verdict(console, results, ran)
    if options.moves or options.racks:
        return moving.verdict(console, results) if options.moves else racks.verdict(console, results)
    return _verdict(console, results, options.mean)


def _jobs(options: argparse.Namespace, drawn: tuple[int, int, int, float, float]) -> list[workload.DemoJob]:
    if options.mixed:
        return mixed.make(*drawn, options.nodes)
    if options.sharing:
        return sharing.make(*drawn)
    return moving.make(*drawn) if options.moves else workload.make(*drawn, apart=options.racks)


def _place(options: argparse.Namespace, state: Path) -> AbstractContextManager[Place]:
    speeds = state / "speeds.json"
    if options.here:
        return standing(options.here, speeds, state / "scores.csv")
    arms: dict[str, Arm] = racks.arms(options.mean) if options.racks else moving.ARMS
    up: tuple[str, ...] = ("--rack-size", str(racks.RACK_SIZE)) if options.racks else ()
    if options.mixed:
        arms, up = mixed.arms(state / "pal.yaml"), mixed.up(options.nodes)
    if options.sharing:
        arms, up = sharing.arms(state / "pal.yaml"), sharing.up()
    size = (options.slurm, options.nodes, options.gpus, speeds)
    return nullcontext(Miniclusters(*size, options.profiled, not options.in_turn, arms, up))


def _intro(options: argparse.Namespace, speeds: speeds_of.Speeds, jobs: list[workload.DemoJob]) -> str:
    a = sorted(s["A"] for slots in speeds.values() for s in slots.values())
    cards = ADDED[options.spread]
    stories = (
        (options.racks, "demo_rack_seeds"),
        (options.mixed, "demo_mixed_seeds"),
        (options.moves, "demo_seeds --moves"),
    )
    seeds = next((name for chosen, name in stories if chosen), "demo_seeds")
    suits = "" if options.moves or options.sharing else "The default seed suits placement; "
    others = "" if options.sharing else f"{suits}`python -m benchmarks.{seeds}` tells what other seeds show.\n"
    return (
        f"{len(jobs)} jobs of 1-{max(job.gpus for job in jobs)} GPUs on a real Slurm ({options.slurm}): "
        f"{options.nodes} nodes x {options.gpus} fake GPUs; the {len(options.runs)} arms "
        f"{'run in turn' if options.here or options.in_turn else 'have a cluster each and run side by side'}.\n"
        f"Hidden speeds follow the spread measured on real V100s (between nodes; medians), {cards}:\n"
        f"class A {a[0]:.2f} .. {a[len(a) // 2]:.2f} .. {a[-1]:.2f} of the median's time. "
        f"pald's scores are {'measured by palctl profile run' if options.profiled else 'a perfect profile of them'}.\n"
        f"{_story(options)}"
        f"{others}"
    )


def _story(options: argparse.Namespace) -> str:
    if options.mixed:
        return mixed.intro(options.nodes)
    if options.sharing:
        return sharing.intro()
    return moving.intro() if options.moves else racks.intro() if options.racks else ""


def _table(results: dict[str, Figures]) -> Table:
    table = Table(title="Same jobs, same slurm.conf", title_justify="left")
    for head in ("", "jobs done", "avg JCT", "p99 JCT", "makespan", "GPU utilisation"):
        table.add_column(head, justify="left" if not head else "right")
    base = results["stock"]
    for name, f in results.items():
        table.add_row(
            name, str(f.completed), _against(f.avg_jct_s, base.avg_jct_s), _against(f.p99_jct_s, base.p99_jct_s),
            _against(f.makespan_s, base.makespan_s), f"{f.utilization:.1%}",
        )  # fmt: skip
    table.caption = "makespan: by the job that ends last; less than one job's length apart is no difference"
    return table


def _against(value: float, base: float) -> str:
    return f"{value:7.1f} s" + (f" ({value / base - 1:+.1%})" if value != base else "         ")


def _by_class(results: dict[str, Figures]) -> Table:
    table = Table(title="Per class", title_justify="left")
    table.add_column("")
    for cls, app in (("A", "resnet"), ("B", "bert"), ("C", "pagerank")):
        table.add_column(f"{cls} ({app})\navg JCT   pace   GPUs at", justify="right")
    for name, f in results.items():
        cells = (
            f"{f.jct_by_class[c]:5.1f} s  {f.pace_by_class[c]:.3f}  {f.rank_by_class[c]:6.0%}" for c in f.jct_by_class
        )
        table.add_row(name, *cells)
    table.caption = (
        "pace: run time / run time on median GPUs.  GPUs at: mean place in the score order, 0 % the fastest."
    )
    return table


def _verdict(console: Console, results: dict[str, Figures], mean_s: float) -> int:
    """Lower on average; of makespans the last job to end decides, and whose turn it is last is luck."""
    pal, others = results["pal"], [results["stock"], results["packed"]]
    if len({f.completed for f in results.values()}) > 1:
        console.print("Not the same jobs were done: no result.")
        return 1
    behind = pal.makespan_s - min(o.makespan_s for o in others)
    lower = all(pal.avg_jct_s < o.avg_jct_s for o in others)
    last = (
        "the lowest of the three" if behind < 0 else f"{behind:.1f} s behind the lowest, where a job lasts {mean_s:g} s"
    )
    console.print(
        f"pal {'has' if lower else 'does not have'} the lowest average JCT; its makespan is {last}. "
        f"{'The same jobs done.' if lower and behind <= mean_s else 'No gain on this run.'}"
    )
    return 0 if lower and behind <= mean_s else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("demo: interrupted, nothing is left running")
