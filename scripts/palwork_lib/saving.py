"""The checkpoint of palwork, one file for all copies. In: how far each copy is. Out: where the next run goes on."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palwork_lib.slurm import job, of_slurm


class Checkpoint:
    """One file for all copies: the steps done are those of the copy that is furthest behind when each has saved."""

    def __init__(self, path: Path, copy: int, copies: int) -> None:
        self.path, self.copy, self.copies = path, copy, copies
        # No two runs have the same: a slurmctld that was killed may forget the restart.
        self.run = f"{job()}.{of_slurm('SRUN_COMM_PORT') if copies > 1 else f'{os.getpid()}.{time.time_ns()}'}"

    def enter(self, from_zero: bool) -> tuple[int, str]:
        """Where this run goes on, and what was found. The first copy to come decides for all: `began`."""
        with self._alone():
            try:
                state, found = json.loads(self.path.read_text()), "whole"
            except FileNotFoundError:
                state, found = {}, "none"
            except (ValueError, RecursionError):
                state, found = {}, "torn"
            steps = state.get("steps", 0) if isinstance(state, dict) else None
            if not isinstance(steps, int) or steps < 0:
                state, found = {}, "torn"
            if state.get("run") != self.run:
                began = 0 if from_zero else int(state.get("steps", 0))
                state = {"run": self.run, "began": began, "steps": began, "copies": {}}
                self._replace(state)
            return int(state["began"]), found

    def save(self, steps: int, answers: int, between: Callable[[], None] | None = None) -> None:
        """`between` takes time while half of it is written, in place."""
        with self._alone():
            state = json.loads(self.path.read_text())
            state["copies"][str(self.copy)] = {"steps": steps, "answers": answers}
            told = [state["copies"].get(str(i), {}).get("steps", state["began"]) for i in range(self.copies)]
            state["steps"] = min(told)
            if between is None:
                self._replace(state)
                return
            text = json.dumps(state)
            with self.path.open("w") as file:
                file.write(text[: len(text) // 2])
                file.flush()
                between()
                file.write(text[len(text) // 2 :])

    def least(self, what: str) -> int:
        """Of `steps` or `answers`, over all copies."""
        with self._alone():
            copies: dict[str, dict[str, int]] = json.loads(self.path.read_text())["copies"]
        return min(copies.get(str(i), {}).get(what, 0) for i in range(self.copies))

    def _replace(self, state: dict[str, Any]) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text(json.dumps(state))
        fresh.replace(self.path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self.path.with_name(self.path.name + ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
