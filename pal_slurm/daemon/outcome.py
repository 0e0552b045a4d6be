"""What a cycle did. In: its counts. Out: one sentence, which is logged, exported and asserted in tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pal_slurm.daemon.moves.budget import SumOfMoves
from pal_slurm.model import EditKind, Outcome

_DID = {
    EditKind.PIN: "pinned",
    EditKind.PLAIN: "released plain",
    EditKind.RENEW: "renewed",
    EditKind.LEASE: "leased again",
    EditKind.UNPIN: "undone",
    EditKind.EXCLUDE: "kept off slower nodes",
    EditKind.INCLUDE: "given their own excluded nodes back",
    EditKind.WARN: "asked to save",
    EditKind.REQUEUE: "requeued",
    EditKind.FENCE: "fenced",
    EditKind.RENICE: "given their nice back",
}


@dataclass
class CycleReport:
    end: str = "ok"  # ok, standby, paused, unavailable, store, gone, stale, denied, clock, fault
    note: str = ""
    aside: str = ""  # what is wrong beside the cycle
    leader: bool = False
    shadow: bool = False
    took_s: float = 0.0
    ended: float = 0.0
    read_s: float | None = None
    pending: int = 0
    leased: int = 0
    expected: int = 0
    undone: int = 0
    moving: int = 0  # jobs between two places
    moved: Counter[str] = field(default_factory=Counter)  # moves that are over, by their ending
    week: SumOfMoves | None = None
    put_off: int = 0  # due, and left for the next cycle: the write budget was spent, or the snapshot too old
    dropped_hints: int = 0
    unread: int = 0
    untold: bool = False  # Slurm does not tell the weights of accounts, and an entitlement goes by them
    scores_known: float = 0.0  # share of the scores that are known and fresh
    would: Counter[str] = field(default_factory=Counter)  # shadow: actions it would have taken
    passing: tuple[str, ...] = ()  # what job_submit.lua may let pass without a lease, in alive.py's words
    edits: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def sentence(self) -> str:
        return "; ".join(filter(None, (self._own(), self.aside)))

    def _own(self) -> str:
        if self.end in ("standby", "unavailable", "store", "gone", "stale", "denied", "clock", "fault"):
            return self.note
        parts = [f"{self.pending} pending, {self.leased} leased"]
        if self.expected:
            parts.append(f"{self.expected} about to start")
        if self.moving:
            parts.append(f"{self.moving} on the move")
        if self.shadow:
            parts += [f"would {action} {n}" for action, n in sorted(self.would.items())]
        for kind in EditKind:
            done = self.edits[(kind, Outcome.DONE)]
            failed = sum(n for (k, o), n in self.edits.items() if k == kind and o != Outcome.DONE)
            if done or failed:
                parts.append(f"{_DID[kind]} {done}" + (f" ({failed} not)" if failed else ""))
        if self.refusals:
            parts.append("refused by the guard: " + ", ".join(f"{n} {r}" for r, n in sorted(self.refusals.items())))
        if self.put_off:
            parts.append(f"{self.put_off} put off to the next cycle")
        if self.dropped_hints:
            parts.append(f"{self.dropped_hints} hints dropped")
        if self.unread:
            parts.append(f"{self.unread} records unread")
        if self.note:
            parts.append(self.note)
        return "; ".join(parts)
