"""Intent, edit, outcome: the one way in which anything is written to Slurm (P3, P6). In: edits. Out: their results.

Each batch: still the leader and the snapshot still fresh? -> intents on disk -> the edits, re-read by the backend ->
outcomes on disk. Killed between any two of these, the next cycle finds the intents and judges them by what stands.
The backend asks before each edit for how long we may still write, and ends the command that writes when that is over.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.pace import EDIT, KEEP, PUT_OFF, START, KeepBudget, StartBudget, WriteBudget, within
from pal_slurm.daemon.reconcile import LASTING
from pal_slurm.daemon.rights import Rights
from pal_slurm.daemon.round import Round, Wish, let_go
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import LATE, NOT_SENT, Edit, EditKind, EditResult, Intent, Outcome, until
from pal_slurm.slurm.port import Series, Slurm
from pal_slurm.store import Ledger

BATCH = 64
# Nothing is left to watch after these: the job is as it was, runs, or is gone.
CLOSING = (Outcome.REFUSED, Outcome.STARTED, Outcome.GONE)
KEEPING = frozenset((EditKind.RENEW, EditKind.LEASE))  # due again in the next cycle; as many as there may be time for
LETTING = (EditKind.PIN, EditKind.PLAIN)
STARTING = (*LETTING, EditKind.UNPIN)
UNWRITTEN = f"{NOT_SENT}the database does not take its intent"
CRASH_POINTS = ("before-intent", "after-intent", "after-edit", "after-outcome")


@dataclass
class Writer:
    slurm: Slurm
    ledger: Ledger
    leader: Leader
    clock: Clock
    entries: Entries
    alive: Alive
    budget: WriteBudget
    max_age_s: float
    starts: StartBudget = field(default_factory=StartBudget)
    keeps: KeepBudget = field(default_factory=KeepBudget)
    rights: Rights = field(default_factory=Rights)
    took_s: float = 0.0  # slurmctld's answers to edits, reading again included, since the last look

    def looked(self, apart_s: float) -> None:
        """At all jobs; looks are so far apart."""
        self.took_s, self.budget.apart_s, self.keeps.apart_s = 0.0, apart_s, apart_s

    def write(self, wishes: Sequence[Wish], round: Round) -> list[EditResult]:
        """As many as the budgets allow, in order; the rest is due again in the next cycle."""
        if not wishes:
            return []
        now = self.clock.monotonic()
        wanted = [KEEP if kind in KEEPING else START if kind in LETTING else EDIT for kind in kinds(wishes)]
        allowed = {START: self.starts.allowance(now), KEEP: self.keeps.allowance(now), EDIT: self.budget.allowance(now)}
        chosen = within(wanted, allowed)
        round.report.put_off += chosen.count(PUT_OFF)
        if any(until(w.edit) and w.edit.kind is not EditKind.RENEW for w in wishes):
            self.alive.shut()
        sent = [w for w, c in zip(wishes, chosen, strict=True) if c]
        results = self._in_batches(sent, round)
        accounts = [c for c, r in zip(filter(None, chosen), results, strict=False) if r.said != LATE]
        self.budget.spend(accounts.count(EDIT))
        self.keeps.spend(accounts.count(KEEP))
        self.starts.spend(accounts.count(START), len(accounts), self.clock.monotonic() - now)
        for result, wish in zip(results, sent, strict=False):
            if result.edit.kind in STARTING and until(result.edit) is None and let_go(result):
                self.entries[wish.key].started = True
            if result.edit.task is None and result.outcome is Outcome.DONE:
                again = until(result.edit) is not None
                plain = result.edit.kind is EditKind.PLAIN
                if again or plain:
                    self.entries[wish.key].let_go_at = None if again else int(round.now)
        self.rights.learn_from(results, self.clock.monotonic())
        if denied := self.rights.denied(self.clock.monotonic()):
            round.report.end, round.report.note = "denied", denied
        round.results += results
        return results

    def keep(self, wishes: Sequence[Wish], round: Round) -> list[EditResult]:
        """Leases: as many as there is time for; the rest is due again in the next cycle."""
        now = wishes[: self.in_time(round)]
        round.report.put_off += len(wishes) - len(now)
        return self.write(now, round)

    def keepable(self, round: Round) -> int:
        """Leases that can be kept now."""
        now = self.clock.monotonic()
        return min(self.in_time(round), self.keeps.allowance(now) + self.budget.allowance(now))

    def in_time(self, round: Round) -> int:
        """Leases that can be kept before the snapshot is too old, by what an edit takes, alone or among many."""
        left_s = self.max_age_s - (self.clock.monotonic() - round.begun)
        return max(0, int(left_s / min(self.starts.cost_s, self.keeps.cost_s)))

    def lift(self, jobs: Sequence[int], round: Round) -> None:
        """End fences of ours; one that can't be ended now ends by itself."""
        if jobs and not self._why_not(round):
            with contextlib.suppress(SlurmUnavailable):
                self.slurm.lift(jobs, lambda: self._left_s(round))

    def _in_batches(self, wishes: Sequence[Wish], round: Round) -> list[EditResult]:
        """Stops, with a note, when we may no longer write on this snapshot's strength."""
        results: list[EditResult] = []
        keeping, left, series = KEEPING.issuperset(kinds(wishes)), wishes, Series()
        coming = (
            self.slurm.keeps_at_once if keeping else 0
        )  # pins and undos are read anew each time: a user may have edited
        while left:
            if stop := self._why_not(round):
                if results and KEEPING.issuperset(kinds(left)) and self.leader.confirm():
                    round.report.put_off += len(left)  # slurmctld took longer than it does: no trouble of ours
                    break
                round.report.end = "stale"
                round.report.note = f"{stop}; {len(left)} edits were not written"
                break
            most = self._at_once(round) if keeping else BATCH
            before, now, left = self.took_s, left[:most], left[most:]
            series.coming = [w.edit for w in left[:coming]]
            made = self._batch(now, round, series)
            if keeping:
                self.keeps.took(sum(r.said != LATE for r in made), self.took_s - before)
            results += made
        for result in results:
            if result.said == LATE:
                round.report.put_off += 1
            else:
                round.report.edits[(result.edit.kind, result.outcome)] += 1
        return results

    def _at_once(self, round: Round) -> int:
        least = min(BATCH, self.slurm.keeps_at_once)
        return self.keeps.bulk(self._left_s(round), least, self.slurm.keeps_at_once)

    def _left_s(self, round: Round) -> float:
        """For how long something may still be written on this snapshot's strength."""
        return min(self.max_age_s - (self.clock.monotonic() - round.begun), self.leader.left_s)

    def _why_not(self, round: Round) -> str:
        age = self.clock.monotonic() - round.begun
        if age > self.max_age_s:
            return f"the snapshot is {age:.1f} s old, more than cycle.max_age_s"
        if not self.leader.goes_on(round.fence):
            return "our leadership ran out"
        return ""

    def _batch(self, batch: Sequence[Wish], round: Round, series: Series) -> list[EditResult]:
        now, passes = round.time(self.clock.monotonic()), round.passes
        crash_point("before-intent")
        intents = self.ledger.write(
            [
                Intent(
                    0, w.submit, w.edit, round.fence, now, decision=w.decision,
                    passes_main=passes.main, passes_backfill=passes.backfill,
                    operation=w.operation, step=w.step, move=w.move, cause=w.cause,
                )
                for w in batch
            ]
        )  # fmt: skip
        crash_point("after-intent")
        written = [w for w, i in zip(batch, intents, strict=True) if i.id]
        sent = iter(self._send(written, round, series) if written else [])
        results = [next(sent) if i.id else EditResult(i.edit, Outcome.REFUSED, UNWRITTEN) for i in intents]
        crash_point("after-edit")
        told = [(i, r.outcome, r.said) for i, r in zip(intents, results, strict=True) if i.id]
        over = [_over(i, r) for i, r in zip(intents, results, strict=True) if i.id]
        now = round.time(self.clock.monotonic())
        self.ledger.outcome((t for t, o in zip(told, over, strict=True) if o), now, close=True)
        self.ledger.outcome((t for t, o in zip(told, over, strict=True) if not o), now)
        crash_point("after-outcome")
        return results

    def _send(self, batch: Sequence[Wish], round: Round, series: Series) -> list[EditResult]:
        """What may still be sent; the disk may have kept us waiting since we decided."""
        stop, now = self._why_not(round), round.time(self.clock.monotonic())
        late = {i for i, w in enumerate(batch) if w.by is not None and now >= w.by}
        if stop:
            return [EditResult(w.edit, Outcome.REFUSED, f"{NOT_SENT}{stop}") for w in batch]
        sent = iter(self._apply([w.edit for i, w in enumerate(batch) if i not in late], round, series))
        return [
            EditResult(w.edit, Outcome.REFUSED, f"{NOT_SENT}its lease is about to end") if i in late else next(sent)
            for i, w in enumerate(batch)
        ]

    def _apply(self, edits: Sequence[Edit], round: Round, series: Series) -> list[EditResult]:
        begun = self.clock.monotonic()
        try:
            return self.slurm.apply(edits, lambda: self._left_s(round), series)
        except SlurmUnavailable as e:
            return [EditResult(edit, Outcome.UNKNOWN, str(e)) for edit in edits]
        finally:
            self.took_s += self.clock.monotonic() - begun


def kinds(wishes: Iterable[Wish]) -> Iterator[EditKind]:
    return (wish.edit.kind for wish in wishes)


def _over(intent: Intent, result: EditResult) -> bool:
    """Whether its operation is; a move is over when its job runs, or is gone (moves/machine.py)."""
    if intent.move is not None:
        return False
    if result.outcome is Outcome.DONE:
        return intent.last and result.edit.kind not in LASTING
    return result.outcome in CLOSING


def crash_point(name: str) -> None:
    """Where tests kill pald: PAL_CRASH_AT=NAME or NAME:N (the N-th time it is passed). SIGKILL, as a power cut is.

    NAME:N:STOP stops it there instead, once: a machine that was suspended, and wakes up late. Several, by commas.
    """
    _passed[name] = _passed.get(name, 0) + 1
    for point in os.environ.get("PAL_CRASH_AT", "").split(","):
        wanted, _, rest = point.partition(":")
        nth, _, how = rest.partition(":")
        if wanted == name and _passed[name] == int(nth or 1):
            os.kill(os.getpid(), signal.SIGSTOP if how == "STOP" else signal.SIGKILL)


_passed: dict[str, int] = {}
