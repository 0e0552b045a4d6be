"""How far the arms are. In: a console. Out: bars on a terminal; elsewhere a line per arm and quarter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .arms import Tick


@contextmanager
def shown(console: Console, jobs: int) -> Iterator[Callable[[str], Tick]]:
    """What makes a `Tick` for an arm that begins now."""
    if not console.is_terminal:
        yield lambda name: _lines(console, name, jobs)
        return
    columns = (
        TextColumn("{task.description:>7}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[running]} in the cluster"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:

        def bar(name: str) -> Tick:
            task = progress.add_task(name, total=jobs, running=0)
            return lambda done, running: progress.update(task, completed=done, running=running)

        yield bar


def _lines(console: Console, name: str, jobs: int) -> Tick:
    begun = time.monotonic()
    said = 0
    console.print(f"{name}: begins, {jobs} jobs")

    def tick(done: int, running: int) -> None:
        nonlocal said
        quarter = 4 * done // jobs
        if quarter > said:
            said = quarter
            console.print(
                f"{name}: {done} of {jobs} jobs done, {running} in the cluster, {time.monotonic() - begun:.0f} s"
            )

    return tick
