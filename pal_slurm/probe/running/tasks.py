"""The tasks of a step, which requeue their job together, once. In: Slurm's environment, a shared directory. Out: words.

Each task says there what became of its save; the first one reads them all, decides, and says what it decided. A round
is one signal to all tasks; its number is that of the last decision and one.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from pal_slurm.probe.words import digits

SAVED, FAILED = "saved", "failed"
YES, NO = "requeued", "stays"


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(f"SLURM_{name}", "")
    return int(text) if digits(text) and len(text) < 10 else default


def job_of(env: Mapping[str, str]) -> str | None:
    """As scontrol takes it: the last task of an array has the array's own number as its id; hetjobs go as one."""
    job = env.get("SLURM_HET_JOB_ID") or env.get("SLURM_JOB_ID", "")
    array, task = env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", "")
    if digits(array) and digits(task):
        return f"{array}_{task}"
    return job if digits(job) else None


class Tasks:
    def __init__(self, env: Mapping[str, str], shared: Path) -> None:
        self.job = job_of(env)
        in_step = digits(env.get("SLURM_STEP_ID", "")) and self.job is not None
        self.count = _number(env, "STEP_NUM_TASKS", 1) if in_step else 1
        self.rank = _number(env, "PROCID", 0) if self.count > 1 else 0
        name = f".pal-run-{self.job}-{env.get('SLURM_STEP_ID', '')}-{_number(env, 'RESTART_COUNT', 0)}"
        self._place = shared / name
        self._round = 0

    @property
    def first(self) -> bool:
        return self.rank == 0

    def begin(self) -> None:
        if self.count > 1:
            self._place.mkdir(mode=0o700, exist_ok=True)
            decided = [int(p.name.removeprefix("decided.")) for p in self._place.glob("decided.*[0-9]")]
            self._round = 1 + max(decided, default=0)

    def say(self, word: str) -> None:
        if self.count > 1:
            self._write(f"{self._round}.{self.rank}", word)

    def take_back(self) -> None:
        """Nobody decided: it is no word for the next round."""
        if self.count > 1:
            (self._place / f"{self._round}.{self.rank}").unlink(missing_ok=True)

    def others(self) -> str | None:
        """What became of the others' saves; None: not all have said it."""
        words = {self._read(f"{self._round}.{rank}") for rank in range(1, self.count)}
        return FAILED if FAILED in words else None if None in words else SAVED

    def decide(self, word: str) -> None:
        if self.count > 1:
            self._write(f"decided.{self._round}", word)

    def decided(self) -> str | None:
        return self._read(f"decided.{self._round}")

    def leave(self) -> None:
        if self.count > 1 and self.first:
            shutil.rmtree(self._place, ignore_errors=True)

    def _write(self, name: str, word: str) -> None:
        fresh = self._place / f"{name}.new.{self.rank}"
        with contextlib.suppress(OSError):  # then the others wait in vain, and nobody requeues
            fresh.write_text(word, encoding="ascii")
            fresh.replace(self._place / name)

    def _read(self, name: str) -> str | None:
        try:
            return (self._place / name).read_text(encoding="ascii")
        except OSError:
            return None
