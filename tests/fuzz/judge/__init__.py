"""The judge. In: a History. Out: Verdicts, each a promise of DESIGN.md that was broken, when and by which job.

It shares no code with pald: it reads what Slurm, users and the disk saw, and knows sbatch's options by itself
(tests/fuzz/test_judge.py holds that).
"""

from __future__ import annotations

from tests.fuzz.history import History
from tests.fuzz.judge import (
    edits,
    hints,
    ledger,
    load,
    moves,
    order,
    owed,
    paying,
    places,
    sharing,
    starts,
    waiting,
    words,
)
from tests.fuzz.judge.facts import Facts, Verdict

__all__ = ["Facts", "Verdict", "judge"]

RULES = (
    *starts.RULES,
    *words.RULES,
    *ledger.RULES,
    *places.RULES,
    *order.RULES,
    *edits.RULES,
    *load.RULES,
    *moves.RULES,
    *paying.RULES,
    *hints.RULES,
    *owed.RULES,
    *sharing.RULES,
    *waiting.RULES,
)


def judge(history: History) -> list[Verdict]:
    """The first break of each rule by each job."""
    if history.broke:
        return [Verdict("P3", "broke", history.ended, None, history.broke)]
    facts = Facts(history)
    found: dict[tuple[str, object], Verdict] = {}
    for rule in RULES:
        for verdict in rule(facts):
            found.setdefault((verdict.rule, verdict.job), verdict)
    return sorted(found.values(), key=lambda verdict: verdict.at)
