"""Sends updates through scontrol, signals through scancel. In: edits that are ready. Out: slurmctld's words on each.

All updates go down the standard input of one scontrol. Before each stands a word that scontrol does not know and so
repeats on stderr: what it says between two of them belongs to one update. By these words we know how far it is, and
tell it the next updates only a moment before it needs them: when our time is over, or we are stopped, so is it (P6).
Nothing of a job's own texts is ever sent, but its original request, whose characters edits/rewrite.py has checked.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pal_slurm.model import fence_of
from pal_slurm.slurm.commands.bound import MOST_STARTS
from pal_slurm.slurm.commands.columns import Layout, rows
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.edits.apply import UNSENT, Heard
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.edits.rewrite import NOW
from pal_slurm.slurm.port import Left, unbounded
from pal_slurm.words import digits, printable

BATCH = 1000  # edits per scontrol at most: the read before each batch is never more than a few seconds ago
EACH_S = 0.05  # what one update may take, beside the deadline of the call
SIGNAL_S = 5.0
AHEAD_S, MOST_AHEAD = 0.1, 8  # so much of its work, and so many updates, are told to scontrol before it is there
_FIELDS = {
    "nodes": "ReqNodeList",
    "excluded": "ExcNodeList",
    "partition": "Partition",
    "tres_per_node": "TresPerNode",
    "tres_per_job": "TresPerJob",
    "tres_per_task": "TresPerTask",
    "tres_per_socket": "TresPerSocket",
}


def send(commands: Commands, ready: Sequence[Ready], left_s: Left = unbounded) -> list[Heard]:
    updates = [item for item in ready if not item.asked.signal]
    heard = iter(_update(commands, updates, left_s) if updates else ())
    return [_signal(commands, item, left_s) if item.asked.signal else next(heard) for item in ready]


def _signal(commands: Commands, ready: Ready, left_s: Left) -> Heard:
    """scancel tries for a minute where a job has just begun to end: it gets a moment."""
    if (left := left_s()) <= 0:
        return UNSENT
    who = ["--batch"] if ready.asked.to_script else []
    signal = f"--signal={ready.asked.signal}"
    answer = commands.run("scancel", (*who, signal, ready.target), deadline_s=min(left, SIGNAL_S))
    said = printable(answer.err)
    return Heard(said or ("" if answer.code == 0 else f"exit status {answer.code}"), not answer.timed_out)


def _update(commands: Commands, ready: Sequence[Ready], left_s: Left) -> list[Heard]:
    if (left := left_s()) <= 0:
        return [UNSENT] * len(ready)
    talk = Talk([update_line(item) for item in ready], left_s)
    answer = commands.run("scontrol", (), talk, min(left, commands.deadline_s + EACH_S * len(ready)))
    return list(talk.heard(answer.err.decode("utf-8", "replace")))


@dataclass
class Talk:
    """What one scontrol is told, little by little. In: update lines. Out: the next words, and what it said of each."""

    lines: Sequence[str]
    left_s: Left
    clock: Callable[[], float] = time.monotonic
    nonce: str = field(default_factory=lambda: f"pal{secrets.token_hex(12)}x")
    told: int = 0  # updates that it was given
    begun: int = 0  # updates that it has come to
    _read: int = 0
    _since: float = 0.0  # when it came to the first one
    _over: bool = False

    def __call__(self, err: bytearray) -> bytes | None:
        self._listen(err)
        if self._over:
            return None
        words = []
        while not self._over and self.told - self.begun < self._most:
            words.append(f"{self.nonce}{self.told}\n")
            self._over = self.told == len(self.lines) or self._late
            if not self._over:
                words.append(f"{self.lines[self.told]}\n")
                self.told += 1
        return "".join(words).encode("ascii")

    def _listen(self, err: bytearray) -> None:
        while (place := err.find(word := self._word(self.begun).encode("ascii"), self._read)) >= 0:
            self._since = self._since or self.clock()
            self._read = place + len(word)
            self.begun += 1

    def _word(self, number: int) -> str:
        return f"invalid keyword: {self.nonce}{number}\n"

    @property
    def _each_s(self) -> float:
        """What one update takes, as far as it is known."""
        known = (self.clock() - self._since) / (self.begun - 1) if self.begun > 1 else EACH_S
        return max(1e-4, known)

    @property
    def _most(self) -> int:
        return max(1, min(MOST_AHEAD, int(AHEAD_S / self._each_s)))

    @property
    def _late(self) -> bool:
        """Another one could come after our time."""
        return self.left_s() <= self._each_s * (self.told - self.begun + 2)

    def heard(self, err: str) -> Iterator[Heard]:
        for number in range(len(self.lines)):
            _, begun, rest = err.partition(self._word(number))
            said, ended, _ = rest.partition(self._word(number + 1))
            yield Heard(printable(said), bool(begun and ended)) if number < self.told else UNSENT


def started_often(commands: Commands, ready: Sequence[Ready]) -> dict[int, Heard]:
    """Of those whose records don't tell it: whom Slurm would soon requeue no more, but hold. In: edits that requeue."""
    ids = [item.before.id for item in ready if item.before.batch is None]
    if not ids:
        return {}
    columns = Layout((("JobId", 12), ("ArrayTaskId", 24), ("BatchFlag", 4)))
    out = commands.read("squeue", ("-h", "-a", "-r", f"-j{','.join(map(str, ids))}", "-O", columns.option))
    flags = {int(row.get("JobId")): row.get("BatchFlag") for row in rows(out, columns)}
    often = {number: flag for number, flag in flags.items() if not digits(flag) or not 1 <= int(flag) <= MOST_STARTS}
    return {number: Heard(f"Slurm counts {flag} starts of it and may hold it soon") for number, flag in often.items()}


def fence_line(ready: Ready) -> str:
    """A reservation that keeps everybody out who does not run there yet, whatever else is reserved."""
    asked = ready.asked
    when = f"StartTime=now EndTime=uts{asked.begin}"
    who = f"ReservationName={fence_of(ready.before.id)} {when} Users=root Nodes={','.join(asked.fence)}"
    return f"create reservation {who} Flags=IGNORE_JOBS,OVERLAP"


def lift(commands: Commands, jobs: Sequence[int], left_s: Left = unbounded) -> None:
    """Delete the fences of these jobs; one that has ended meanwhile is gone."""
    lines = "".join(f"delete ReservationName={fence_of(job)}\n" for job in jobs)
    if (left := left_s()) > 0:
        commands.ask("scontrol", (), lines.encode("ascii"), min(left, commands.deadline_s))


def update_line(ready: Ready) -> str:
    """What scontrol is told to make this edit. `incomplete`: a job that has ended meanwhile is not run again."""
    asked = ready.asked
    if asked.fence:
        return fence_line(ready)
    first = f"requeue incomplete {ready.target}\n" if asked.requeue else ""
    first += f"release {ready.target}\n" if asked.anew else ""  # of a job that nobody holds: its priority anew
    parts = [f"{first}update JobId={ready.target}"]
    parts += [f"{_FIELDS[name]}={text}" for name, text in asked.texts.items()]
    if asked.min_nodes is not None:
        parts.append(f"NumNodes={asked.min_nodes}-{asked.max_nodes}")
    if asked.nice is not None:
        parts.append(f"Nice={asked.nice}")
    if asked.begin is not None:
        parts.append("StartTime=now" if asked.begin == NOW else f"StartTime=uts{asked.begin}")
    return " ".join(parts) + (f"\n{asked.hold} {ready.target}" if asked.hold else "")
