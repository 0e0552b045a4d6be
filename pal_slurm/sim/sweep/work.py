"""The runs themselves. In: a sweep, what has been run. Out: the rest is run, on some processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path

from pal_slurm.errors import PalError
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.costs import parse_costs, parse_uplinks
from pal_slurm.sim.engine import ClusterRules, Engine, OnProgress
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import Setting, scheduler_for
from pal_slurm.sim.sweep.grid import GridCell, OneWorld, RunOf, Sweep
from pal_slurm.sim.sweep.kept import Figures, KeptRuns, of_size
from pal_slurm.sim.traces import Options
from pal_slurm.sim.worlds import Sources, Worlds

VOLATILE = ("cpu_s",)  # not the same again
TRIES = 3  # a run whose process was killed so often is not begun again


def run_rest(sweep: Sweep, kept: KeptRuns, worlds: Sequence[OneWorld], processes: int, progress: OnProgress) -> int:
    """How many of these worlds' runs there are now."""
    runs = [RunOf(world, spec.label) for world in worlds for spec in sweep.specs]
    for _ in range(TRIES):
        done = kept.done(runs)
        progress(len(done), len(runs))
        todo: dict[OneWorld, list[str]] = {}
        for run in runs:
            if run not in done:
                todo.setdefault(run.world, []).append(run.policy)
        if not todo:
            return len(done)
        count = len(done)
        for world in _run(sweep, kept.directory, todo, processes):
            count += len(todo[world])
            progress(count, len(runs))
    return len(kept.done(runs))


def _run(sweep: Sweep, directory: Path, todo: Mapping[OneWorld, Sequence[str]], processes: int) -> Iterator[OneWorld]:
    """Each as it is done."""
    if processes == 1:
        for world, policies in todo.items():
            run_world(sweep, directory, world, policies)
            yield world
        return
    context = multiprocessing.get_context("forkserver")  # fork is not safe beside threads (the bar has one)
    with ProcessPoolExecutor(min(processes, len(todo)), context, initializer=end_with_parent) as pool:
        try:
            futures = {pool.submit(run_world, sweep, directory, *item): item[0] for item in todo.items()}
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BrokenProcessPool:
            return  # one was killed, and all of its siblings with it; what they finished is kept
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def end_with_parent() -> None:
    """A worker whose sweep was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()


def run_world(sweep: Sweep, directory: Path, world: OneWorld, policies: Sequence[str]) -> None:
    """Every policy of these on one draw."""
    cell, grid, kept = world.cell, sweep.grid, KeptRuns(sweep, directory)
    draws = _worlds(sweep, cell)
    drawn = draws(world.seed)
    rules = ClusterRules(
        grid.round, grid.restart_cost, checkpoint_s=grid.checkpoint, uplinks=parse_uplinks(grid.uplinks)
    )
    setting = Setting(parse_cluster(cell.cluster), grid.locality, rules, grid.moves)
    gc.disable()  # as palctl simulate does
    try:
        for spec in sweep.specs:
            if spec.label in policies:
                scheduler = scheduler_for(spec, setting, drawn.known, world.seed)
                outcome = Engine(setting.cluster, drawn.truth, drawn.load, scheduler, setting.rules).run()
                kept.keep(RunOf(world, spec.label), _lasting(outcome))
    except PalError as error:
        raise type(error)(f"{', '.join(map(str, cell))}, seed {world.seed}: {error}") from error
    finally:
        gc.enable()
        gc.collect()


def _lasting(outcome: TraceOutcome) -> Figures:
    """Those of size classes that the run has no jobs of are left out."""
    figures = {name: float(value) for name, value in outcome.figures().items() if name not in VOLATILE}
    return figures | {
        of_size(name, key): float(v) for name, of in outcome.sizes().items() for key, v in of._asdict().items()
    }


_READ: dict[tuple[str, GridCell], Worlds] = {}


def _worlds(sweep: Sweep, cell: GridCell) -> Worlds:
    """Files are read once per process and cell."""
    if (sweep.mark, cell) not in _READ:
        g, cluster = sweep.grid, parse_cluster(cell.cluster)
        synthetic = cell.trace.partition(":")[0] == "synthetic"
        sources = Sources(
            trace=cell.trace if synthetic else str(sweep.at / cell.trace),
            fmt="auto" if synthetic else g.format,
            options=Options(g.locality, g.default_class.upper(), g.limit_factor, sweep.path(g.throughputs)),
            tracked=None if g.tracked is None else range(g.tracked),
            window=g.window,
            scores=sweep.path(g.scores),
            known=sweep.path(g.known),
            profiles={cls: sweep.at / name for cls, name in g.profiles.items()},
            costs=parse_costs(_from(sweep.at, cell.comm)) if cell.comm else None,
            share=cell.load,
        )
        if len(_READ) > 8:
            _READ.clear()
        _READ[sweep.mark, cell] = Worlds(sources, cluster, sweep.seeds[0])
    return _READ[sweep.mark, cell]


def _from(at: Path, comm: str) -> str:
    name, colon, wanted = comm.rpartition(":")
    return f"{at / name}{colon}{wanted}" if name else comm
