"""Step times of a training script, with one line of it. In: its loop. Out: a report to the node's watcher now and then.

    for batch in steps(batches): ...            or            with steps() as step:
                                                                  ...; step()

A step lasts from one turn to the next. The first one is not counted: it loads, compiles and tunes. One report goes out
every ten seconds at most; between reports a step costs well under a microsecond. Without a watcher nothing happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from pal_slurm.probe.document import StepTimes
from pal_slurm.probe.reporting import rank, send

T = TypeVar("T")


class Steps(Generic[T]):
    def __init__(self, batches: Iterable[T] = (), app: str | None = None, every: float = 10.0) -> None:
        self._batches, self._app, self._every = batches, app, every
        self._before: float | None = None  # when the step that is under way began
        self._clear(time.perf_counter())

    def _clear(self, now: float) -> None:
        self._since = now
        self._count, self._seconds, self._fastest, self._slowest = 0, 0.0, float("inf"), 0.0

    def __call__(self) -> None:
        """A step is done, the next begins."""
        now = time.perf_counter()
        if self._before is not None:
            took = now - self._before
            self._count += 1
            self._seconds += took
            if took < self._fastest:
                self._fastest = took
            if took > self._slowest:
                self._slowest = took
            if now - self._since >= self._every:
                self.flush(now)
        self._before = now

    def flush(self, now: float | None = None) -> None:
        """Report what was counted since the last report."""
        if now is None:
            now = time.perf_counter()
        if self._count:
            ended = time.time()
            begun = ended - (now - self._since)
            times = (self._seconds, self._fastest, self._slowest)
            send(StepTimes(rank(), begun, ended, self._count, *times, self._app))
        self._clear(now)

    def __iter__(self) -> Iterator[T]:
        try:
            for batch in self._batches:
                yield batch
                self()
        finally:
            self.flush()

    def __enter__(self) -> Steps[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def steps(batches: Iterable[T] = (), app: str | None = None, every: float = 10.0) -> Steps[T]:
    """Count the steps of a loop over `batches`, or of a `with` block that calls what it is given after each step."""
    return Steps(batches, app, every)
