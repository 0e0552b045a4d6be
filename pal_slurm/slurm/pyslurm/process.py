"""Keeps the pyslurm worker alive and in step. In: verbs with deadlines. Out: its answers, or SlurmUnavailable.

The worker may exit, crash, hang in an RPC (pyslurm holds the GIL through it, so only SIGKILL helps) or talk nonsense.
Each of these ends that process and no other: the next call starts a new one with new pipes, so a late answer has no
way to reach a later call. A worker that can't be started, or dies again and again, is started at growing intervals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.pyslurm.pipe import Child, Declined, Lost

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 10.0


class WorkerProcess:
    """One worker at a time; any thread may call, one call at a time."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        hello: Mapping[str, object] | None = None,
        check: Callable[[msgspec.Raw], None] = lambda raw: None,
        start_deadline_s: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.command = tuple(command)
        self.starts = 0
        self._hello = dict(hello or {})
        self._check = check
        self._start_deadline_s = start_deadline_s
        self._clock = clock
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._failures = 0  # starts that failed and workers that died, since the last answer
        self._not_before = float("-inf")
        self._last_failure = ""

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def call(
        self,
        verb: str,
        args: Mapping[str, object] | None = None,
        *,
        deadline_s: float,
        on_part: Callable[[msgspec.Raw], None] = lambda raw: None,
    ) -> msgspec.Raw:
        """The `done` of the answer; its parts go to `on_part` as they come. Raises SlurmUnavailable, nothing else."""
        with self._lock:
            end = self._clock() + deadline_s
            child = self._child or self._start(min(end, self._clock() + self._start_deadline_s))
            try:
                done = child.ask(verb, args or {}, end, on_part)
            except Lost as lost:
                self._drop(f"the pyslurm worker {lost}", died=not child.timed_out)
                raise SlurmUnavailable(self._last_failure) from lost
            except Declined:
                self._failures = 0
                raise
            except BaseException:  # also an interrupt, or an on_part that can't read its part: out of step
                self._drop("the call was broken off", died=False)
                raise
            self._failures = 0
            return done

    def close(self) -> None:
        with self._lock:
            if self._child:
                self._child.end(patience_s=1.0)
                self._child = None

    def _start(self, end: float) -> Child:
        wait = self._not_before - self._clock()
        if wait > 0:
            raise SlurmUnavailable(f"{self._last_failure} (it is started again in {wait:.1f} s)")
        self.starts += 1
        child: Child | None = None
        try:
            child = Child(self.command, self._clock)
            self._check(child.ask("hello", self._hello, end, lambda raw: None))
        except (Lost, SlurmUnavailable, OSError) as error:
            self._child = child
            why = f"`{' '.join(self.command)}` can't be run: {error}" if child is None else str(error)
            self._drop(f"the pyslurm worker could not be started: {why}", died=child is None or not child.timed_out)
            raise SlurmUnavailable(self._last_failure) from error
        self._child = child
        return child

    def _drop(self, why: str, *, died: bool) -> None:
        if self._child:
            self._child.end()
            self._child = None
        self._last_failure = why
        if died:
            self._failures += 1
            # The first death is followed by a new start at once: it may have been an accident.
            pause = FIRST_PAUSE_S * 2 ** (self._failures - 2) if self._failures > 1 else 0.0
            self._not_before = self._clock() + min(pause, LONGEST_PAUSE_S)
