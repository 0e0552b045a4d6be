"""Two jobs on one GPU, told. In: a Why, outcomes. Out: a sentence for `palctl why`, columns for `palctl jobs`."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import Action, Job, Snapshot
from pal_slurm.report.text import Value
from pal_slurm.store import JobOutcome, Why

ALONE = {
    "site": "nobody shares GPUs here: the site has not switched it on, or Slurm can't be asked (palctl status).",
    "users": "users may ask for parts of GPUs themselves here (pal_lua.conf's shards), so a stranger could come to it.",
    "later": "that came after its submission, or it says --mem=0, --oversubscribe or --gpu-freq.",
    "request": "only a batch job of one GPU on one node may, that asks for nothing by GPU beside it, for no GPU model "
    "by type and no node, and whose array has no limit of its own.",
    "limit": "its account, its user, its QOS or its partition's has a limit on GPUs (gres/gpu) that names no parts of "
    "them (gres/shard), so it could have more than that.",
    "gpus": "its GPUs can't be given out in parts.",
    "off": "it says pal:off too.",
}


def alone(job: Job, snapshot: Snapshot, *, parts: bool) -> str:
    """Why a job that says pal:share has its GPUs to itself all the same; nothing: it may share."""
    if not parts:
        return "site"
    if job.hint.off:
        return "off"
    if job.lease is not None and not job.lease.asked_to_share:
        return "users" if job.lease.shards_of_users else "later"
    if job.gpus_limited:
        return "limit"
    if not job.shares:
        return "request"
    return "gpus" if snapshot.cluster.parts is None else ""


def shares(why: Why) -> str:
    """What its pal:share has come to."""
    d = why.decision
    if not why.share:
        return ""
    if d.together is not None:
        t = d.together
        if not t.measured:
            return (
                f"It says pal:share, and is put on the GPU of job {t.job}, of the same owner: nobody knows yet what "
                "the two cost each other, and pal.yaml asks to have it measured (sharing.pairs, measure: true). No "
                "other two of that pair are put together before that is known."
            )
        return (
            f"It says pal:share, and is put on the GPU of job {t.job}, of the same owner. A step takes it "
            f"{t.factor:.2f} times as long there as alone, and job {t.job} {t.others:.2f} times; together they do "
            f"{t.gain:.2f} of a job more than that one by itself."
        )
    if d.placement is not None and d.placement.shard:
        return "It says pal:share: it has its GPU to itself until another job of its owner's is put beside it."
    if why.alone:
        return f"It says pal:share; it has its GPUs to itself all the same: {ALONE[why.alone]}"
    if d.action is Action.WAIT:
        return (
            "It says pal:share: it is put beside a job of its owner's where a pair of the two is known to gain, but "
            "not while a job of another owner is ahead of it that could have the same GPU."
        )
    return "It says pal:share; it has its GPUs to itself, for no pair with its application is known that gains."


def beside(why: Why, got: Sequence[JobOutcome]) -> dict[str, Value]:
    """Whose GPU it was put on, what that costs it, what both do more than one; the GPU seconds that it has won."""
    t = why.decision.together
    if t is None:
        return {"beside": None, "beside_cost": None, "beside_gain": None, "beside_gpu_s": None}
    mine = [o for o in got if o.ref == why.ref]
    theirs = [o for o in got if o.job == t.job]
    spans = [(max(a.start, b.start), min(a.end, b.end)) for a in mine for b in theirs if a.end and b.end]
    both_s = [float(max(0, end - start)) for start, end in spans]
    return {
        "beside": t.job,
        "beside_cost": t.factor - 1.0,
        "beside_gain": t.gain,
        "beside_gpu_s": max(both_s) * t.gain if both_s else None,
    }
