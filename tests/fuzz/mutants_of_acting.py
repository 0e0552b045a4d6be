"""Mutants of how pald writes: leases, the ledger, leadership, budgets, edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.daemon.leases.keeping as keeping
import pal_slurm.daemon.past as past
import pal_slurm.daemon.reconcile as reconcile
import pal_slurm.daemon.starts as starts
import pal_slurm.daemon.writer as writer
import pal_slurm.slurm.edits.apply as apply
import pal_slurm.slurm.edits.rewrite as rewrite
from pal_slurm.daemon.cycle import Cycle
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.pace import ReadPace, TimeShare, WriteBudget
from pal_slurm.daemon.round import Wish
from pal_slurm.errors import NotLeader
from pal_slurm.model import EditResult, Intent, Outcome, Pin, Unpin
from pal_slurm.store import Ledger
from pal_slurm.store.leadership import Term
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


@mutant("no lease is renewed")
def lease_never_renewed() -> Patches:
    return [(Cycle, "_renew", lambda self, round: None)]


@mutant("leases are of an hour")
def lease_of_an_hour() -> Patches:
    return [(keeping, "_end", lambda rank, job, rules, now, slack: int(now) + 3600)]


@mutant("an undo is sent to the next job")
def undo_of_the_wrong_job() -> Patches:
    give = was(past, "give_back")

    def other(*words: Any) -> Unpin:
        edit: Unpin = give(*words)
        return replace(edit, job=edit.job + 1)

    return [(past, "give_back", other)]


@mutant("the edit is made, and then written down")
def intent_after_the_edit() -> Patches:
    def batch(self: writer.Writer, wishes: Sequence[Any], round: Any, series: Any) -> list[EditResult]:
        results = self._send(wishes, round, series)
        now, passes = self.clock.now(), round.passes
        said = [
            Intent(0, w.submit, w.edit, round.fence, now, decision=w.decision, passes_main=passes.main) for w in wishes
        ]
        written = self.ledger.write(said)
        told = [(i, r.outcome, r.said) for i, r in zip(written, results, strict=True)]
        self.ledger.outcome(told, now)
        return results

    return [(writer.Writer, "_batch", batch)]


@mutant("no intent is written")
def intent_not_written() -> Patches:
    return [(Ledger, "write", lambda self, planned: list(planned))]


@mutant("no word against it counts as done: what was written is not compared")
def outcome_not_compared() -> Patches:
    def done(ready: Any, heard: Any, after: Any, now: float) -> EditResult:
        found = next((job for job in after if job.id == ready.before.id), None)
        return EditResult(ready.edit, Outcome.DONE, heard.said, found)

    return [(apply, "_verdict", done)]


@mutant("the write budget is ignored")
def budget_ignored() -> Patches:
    def all_of_it(self: object, monotonic: float) -> int:
        return 1_000_000

    return [(WriteBudget, "allowance", all_of_it), (TimeShare, "allowance", all_of_it)]


@mutant("reading keeps to no share of slurmctld's time")
def read_share_ignored() -> Patches:
    return [(ReadPace, "gap_s", lambda self, least: least)]


@mutant("the age of the snapshot is not looked at before a write")
def stale_snapshot_accepted() -> Patches:
    def why_not(self: writer.Writer, round: Any) -> str:
        return "" if self.leader.confirm() else "our leadership ran out"

    def left_s(self: writer.Writer, round: Any) -> float:
        return self.leader.left_s

    return [(writer.Writer, "_why_not", why_not), (writer.Writer, "_left_s", left_s)]


@mutant("for how long it may still write is asked before a bulk of edits, and not before each")
def time_left_asked_once() -> Patches:
    def apply_(self: writer.Writer, edits: Any, round: Any, series: Any) -> list[EditResult]:
        left = self._left_s(round)
        return self.slurm.apply(edits, lambda: left, series)

    return [(writer.Writer, "_apply", apply_)]


@mutant("the ledger takes intents of a leader that was replaced")
def fence_ignored() -> Patches:
    return [(Ledger, "_refuse_old_leader", lambda self, db, fence: None)]


@mutant("who stands by writes too")
def second_leader_writes() -> Patches:
    hold = Leader.hold

    def anyway(self: Leader) -> Term:
        try:
            return hold(self)
        except NotLeader:
            current = self.row.current()
            self._valid_until = self.clock.monotonic() + self.ttl_s
            self._term = Term(self.owner, current.fence if current else 1, self.clock.now() + self.ttl_s)
            return self._term

    return [(Leader, "hold", anyway)]


@mutant("whose lead is over is told by the host's own clock")
def lead_by_the_hosts_clock() -> Patches:
    def left_s(self: Leader, held: Term) -> float:
        left = held.expires - self.clock.now()
        return left if left <= 10 * self.ttl_s else 0.0  # written by a clock that was wrong

    return [(Leader, "_left_s", left_s)]


@mutant("of an array all tasks are pinned at once")
def arrays_pinned_whole() -> Patches:
    start = was(starts, "start")

    def whole(decision: Any, job: Any) -> Any:
        edit = start(decision, job)
        return replace(edit, job=job.id, task=None) if isinstance(edit, Pin) else edit

    return [(starts, "start", whole)]


@mutant("an undo leaves the slots in the request")
def undo_leaves_slots() -> Patches:
    unpin = was(rewrite, "_unpin")

    def only_nodes(*words: Any) -> Any:
        found = unpin(*words)
        texts = {name: text for name, text in found.texts.items() if name in ("nodes", "partition")}
        return replace(found, texts=texts)

    return [(rewrite, "_unpin", only_nodes)]


@mutant("nodes that a user writes right after our pin are taken back with it (found by this bench)")
def nodes_after_a_pin_taken_back() -> Patches:
    def all_of_them(bad: Any, now: float) -> Any:
        for result, decision in bad:
            job, pin = result.after, result.edit
            if result.outcome is Outcome.PARTIAL and job is not None and job.pending:
                yield Wish(Unpin(job.id, original=pin.original), job.submit, decision)

    return [(starts, "give_backs", all_of_them)]


@mutant("a job whose pin is taken back is leased again, whoever waits behind it")
def turn_lost_with_the_pin() -> Patches:
    return [(past, "would_be_passed", lambda job, waiting: False)]


@mutant("a pin that was torn is left as it is")
def torn_pins_left() -> Patches:
    judge = was(reconcile, "judge_pin")

    def stands(intent: Any, pin: Any, job: Any, view: Any) -> Any:
        found = judge(intent, pin, job, view)
        torn = found.fate is reconcile.Fate.UNDO and intent.outcome is not Outcome.DONE
        return reconcile.Transition(intent, reconcile.Fate.WAITING, job) if torn else found

    return [(reconcile, "judge_pin", stands), (starts, "give_backs", lambda bad, now: iter(()))]
