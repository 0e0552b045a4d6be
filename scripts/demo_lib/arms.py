"""The arms of the demo, side by side or in turn. In: a place, the jobs. Out: what each job took and got, arm by arm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from .cluster import Place
from .run import Ran, run
from .workload import DemoJob

Tick = Callable[[int, int], None]  # jobs done, jobs in the cluster


def play(
    place: Place, names: Sequence[str], jobs: Sequence[DemoJob], state: Path, ticks: Callable[[str], Tick]
) -> dict[str, list[Ran]]:
    if place.together:
        return _side_by_side(place, names, jobs, state, ticks)
    ran = {}
    for name in names:
        with place.arm(name, state / name) as stage:
            ran[name] = run(jobs, stage, state / f"out-{name}", ticks(name))
    return ran


def _side_by_side(
    place: Place, names: Sequence[str], jobs: Sequence[DemoJob], state: Path, ticks: Callable[[str], Tick]
) -> dict[str, list[Ran]]:
    """All begin at the same moment, when the last cluster is ready: what else the machine does is the same for all."""
    begin = threading.Barrier(len(names))
    starting = threading.Lock()
    over = threading.Event()
    causes: list[BaseException] = []

    def arm(name: str) -> list[Ran]:
        try:
            with ExitStack() as stack:
                with starting:  # measuring GPUs and starting daemons is done undisturbed
                    _go_on(over)
                    stage = stack.enter_context(place.arm(name, state / name))
                begin.wait()
                return run(jobs, stage, state / f"out-{name}", _while_all_is_well(over, ticks(name)))
        except threading.BrokenBarrierError:
            return []
        except BaseException as error:
            causes.append(error)
            over.set()
            begin.abort()
            raise

    with ThreadPoolExecutor(len(names)) as pool:
        running = {name: pool.submit(arm, name) for name in names}
        try:
            wait(running.values(), return_when=FIRST_EXCEPTION)
            if causes:  # what the others say is that they were told to stop
                raise causes[0]
            return {name: future.result() for name, future in running.items()}
        finally:  # nothing to do but after a failure or Ctrl-C: then the others stop, too
            over.set()
            begin.abort()


def _while_all_is_well(over: threading.Event, tick: Tick) -> Tick:
    def checked(done: int, running: int) -> None:
        _go_on(over)
        tick(done, running)

    return checked


def _go_on(over: threading.Event) -> None:
    if over.is_set():
        raise SystemExit("demo: given up, as another arm failed")
