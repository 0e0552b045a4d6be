"""pald's sign of life, which job_submit.lua reads for each job. In: cycles, what may pass, QOS. Out: one small file.

    1763456789                      the time of the cycle: leases are given while this is fresh
    preempt high,urgent             QOS that may preempt: a lease would hurt their jobs
    lease 20                        seconds that a new job waits for us, where pal_lua.conf does not say (between.py)
    pass all 1763456788 1763456797  or `pass some`, or no such line: passing.py; from when it is, until when it holds
    room gpu A 12                   pass some: single GPUs of a partition that Slurm itself gives well to class A
    app resnet B                    pass some: applications by class, where it is not the one of the first `class` line
    class A                         pass some: what an unknown application is taken for
    end                             without this line only the first one counts

The file is replaced whole. Only names that lua's own patterns know stand in it (P9).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.words import digits

log = logging.getLogger("pald")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def is_name(text: str) -> bool:
    """What may be written: no blank, comma or newline, so that no name can pass for another line."""
    return _NAME.fullmatch(text) is not None


def beside(path: Path) -> Path:
    """The sign of life of a pald that gives no leases."""
    return path.with_name(path.name + "-exclude")


@dataclass
class Alive:
    """The file, and whether jobs may pass by what stands in it."""

    path: Path | None
    preempting: tuple[str, ...] = ()
    lease_s: int | None = None
    given: bool = field(default=False, init=False)  # it is ours to take back
    _open: bool = field(default=True)  # what an earlier pald let pass is not known

    def beat(self, now: float, passing: Iterable[str] = ()) -> None:
        """We live, and this may pass."""
        lines = list(passing)
        self._open, self.given = bool(lines), True
        self._write(now, lines)

    def beat_beside(self, now: float) -> None:
        """We live, and lease nobody: job_submit.lua does not look there, the dead man's timer does."""
        if self.path is not None:
            beside(self.path).write_text(f"{int(now)}\n", encoding="ascii")

    def shut(self) -> None:
        """Nothing may pass from here on: somebody is about to be leased. That is no sign of life: its time stays."""
        if self._open and (beat := self._last()) is not None:
            self._write(beat, [])
        self._open = False

    def gone(self) -> None:
        """No leases any more: slurmctld lets us edit nobody's jobs."""
        self._open = self.given = False
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _last(self) -> int | None:
        try:
            word = self.path.read_text(encoding="ascii").partition("\n")[0] if self.path is not None else ""
        except (OSError, ValueError):  # there is none, and so nothing that says what may pass
            return None
        return int(word) if digits(word) else None

    def _write(self, now: float, lines: list[str]) -> None:
        if self.path is None:
            return
        qos = [f"preempt {','.join(names)}"] if (names := [n for n in self.preempting if is_name(n)]) else []
        lease = [f"lease {self.lease_s}"] if self.lease_s else []
        text = "\n".join([str(int(now)), *qos, *lease, *lines, "end", ""])
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, encoding="ascii")
            fresh.chmod(0o644)  # slurmctld reads it as another user, and the unit's umask hides files from others
            fresh.replace(self.path)
        except OSError as e:
            self._open = False
            log.warning(
                "cycle.alive_file: can't write %s: %s; job_submit.lua will give no leases", self.path, e.strerror
            )
