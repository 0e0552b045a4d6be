"""P6: one writer, on a fresh look."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.fuzz.judge.facts import Facts, Verdict

MAX_AGE_S = 15.0  # cycle.max_age_s
SLACK_S = 0.01


def on_a_fresh_look(facts: Facts) -> Iterator[Verdict]:
    """When it is let go; how long it is on its way is slurmctld's affair."""
    for update in facts.ours:
        age = update.sent - update.asked
        if age > MAX_AGE_S + SLACK_S:
            yield Verdict(
                "P6", "stale", update.at, None, f"{update.target}: written {age:.0f} s after its snapshot was asked for"
            )


def one_writer(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        if update.lead is None or update.lead.pald == update.pald:
            continue
        # Who took over once this one was on its way can't have been known to its writer.
        taken = [c.began for c in facts.cycles if c.pald == update.lead.pald and c.leads and c.at <= update.at]
        since = max(
            (c.at for c in facts.cycles if c.pald == update.pald and c.leads and c.at <= update.at), default=0.0
        )
        over = min((began for began in taken if began >= since), default=-1.0)
        if over < update.sent:
            said = f"{update.target}: {update.pald} wrote, {update.lead.pald} leads since {over:.0f}"
            yield Verdict("P6", "two-writers", update.at, None, said)


def by_its_own_fence(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        lead, row = update.lead, update.row
        if lead is not None and row is not None and lead.pald == update.pald and row.fence != lead.fence:
            said = f"{update.target}: fence {row.fence}, the leader's is {lead.fence}"
            yield Verdict("P6", "old-fence", update.at, None, said)


def fences_grow(facts: Facts) -> Iterator[Verdict]:
    """The ledger takes nothing of a leader that was replaced."""
    for step, later in pairwise(facts.history.ledger):
        if later.fence < step.fence:
            said = f"step {later.id} was written under fence {later.fence}, after one under {step.fence}"
            yield Verdict("P6", "old-intent", facts.history.ended, None, said)


RULES = (on_a_fresh_look, one_writer, by_its_own_fence, fences_grow)
