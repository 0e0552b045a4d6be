"""What would be moved now, as rows. In: running jobs, each with a decision or why it stays. Out: who goes first."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import Decision, Job, Placement
from pal_slurm.report.text import Value
from pal_slurm.report.why import where

FIELDS = ("job", "user", "app", "gpus", "moves", "action", "where", "to", "gain_s", "cost_s", "step_time", "why")
DEFAULT = ("job", "app", "gpus", "moves", "action", "where", "to", "gain_s", "cost_s", "why")


def would_rows(found: Sequence[tuple[Job, Decision | None, str]]) -> list[dict[str, Value]]:
    rows = [_row(job, decision, said) for job, decision, said in found]
    return sorted(rows, key=lambda row: (row["action"] == "stays", row["job"]))


def _row(job: Job, decision: Decision | None, said: str) -> dict[str, Value]:
    terms = decision.terms if decision else None
    return {
        "job": job.id,
        "user": job.user,
        "app": job.hint.app,
        "gpus": sum(map(len, job.gpus)),
        "moves": job.consent.given.value,
        "action": decision.action.value if decision else "stays",
        "where": where(Placement(job.nodes, job.gpus, exact=False)) if any(job.gpus) else None,
        "to": where(decision.placement) if decision and decision.placement else None,
        "gain_s": round(terms.gain_s, 1) if terms else None,
        "cost_s": round(terms.cost_s, 1) if terms else None,
        "step_time": decision.step_time if decision else None,
        "why": decision.reason.value if decision else said,
    }
