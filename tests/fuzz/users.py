"""What users, admins and nodes do, with or without pald. In: a happening of the script. Out: the cluster, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.manners import PLAIN_MANNERS, Manners, asks_for_less, dies, exits, requeues
from tests.fuzz.history import UserDid
from tests.fuzz.script import Submission
from tests.fuzz.seen import START, SeenController
from tests.simcluster import Sbatch

NUMBERS = frozenset({"time_limit_min"})


def _wants_another_node(c: Controller, job: SimJob) -> None:
    """It requeues itself, and names a node: a user's word as any other."""
    asks_for_less(c, job)
    assert isinstance(c, SeenController)
    after = c.heard.record(job)
    word = f"required_nodes={job.record.required_nodes}"
    c.heard.events.append(UserDid(c.now - START, after.job[0], "edit", (word,), (after,)))


MANNERS: Mapping[str, Manners] = {
    "": PLAIN_MANNERS,
    "slow": Manners(9.0, 0.0, None),  # it takes its time to end
    "deaf": Manners(100.0, 0.0, None),  # it is killed after KillWait
    "runs-on": Manners(0.5, 0.0, None),  # it saves, or does nothing, and runs on
    "requeues": Manners(0.5, 4.0, requeues),  # it saves, and goes back to the queue
    "too-late": Manners(0.5, 40.0, requeues),
    "exits": Manners(0.5, 2.0, exits),
    "dies": Manners(0.5, 0.1, dies),
    "other-nodes": Manners(0.5, 3.0, _wants_another_node),
}


def submit(c: SeenController, release: str, line: int, job: Submission, lines: dict[int, int]) -> int:
    made = Sbatch(release, c.now).read(job.options)
    made.record.user = job.user
    # Its start may come with the submission: from then on its line must be known.
    lines[c.next_job] = line
    return c.submit(
        made.record, lambda _: job.runs, begin=made.begin, held=made.held, waits_for=made.after,
        recounts=made.recounts, said_requeue=made.said_requeue, manners=MANNERS[job.manners],
    )  # fmt: skip


def node(c: SeenController, name: str, state: str) -> None:
    if name in c.row:
        c.set_node(name, "" if state == "UP" else state)


def did(c: SeenController, number: int, line: int, what: str, words: Sequence[str]) -> UserDid | None:
    """Nothing, where the job is past it."""
    family = c.family(number)
    if what == "cancel":
        c.cancel(number)
    elif what == "requeue":
        for job in family:
            if job.record.state == "RUNNING":
                c.requeue(job.record.id)
    elif what == "says":  # also of one that runs
        for job in family:
            job.record.comment = words[0]
            job.changed()
        c.version += 1
    else:
        waiting = [job for job in family if job.pending or (what in _PRIORITY and job.back)]
        if not waiting:
            return None
        for job in waiting:
            _DEEDS[what](c, job, words)
            job.changed()
        c.stir()
    after = tuple(c.heard.record(job) for job in c.family(number))
    return UserDid(c.now - START, line, what, tuple(words), after)


def _edit(c: SeenController, job: SimJob, words: Sequence[str]) -> None:
    for word in words:
        name, _, value = word.partition("=")
        setattr(job.record, name, int(value) if name in NUMBERS else value)


def _begin(c: SeenController, job: SimJob, words: Sequence[str]) -> None:
    """StartTime=now+SECONDS."""
    job.begin = float(int(c.now) + int(words[0])) if int(words[0]) else c.now
    c.settle(job)


_DEEDS: Mapping[str, Callable[[SeenController, SimJob, Sequence[str]], None]] = {
    "edit": _edit, "begin": _begin,
    "hold": lambda c, job, _: c.held(job, "JobHeldUser"),
    "release": lambda c, job, _: c.release(job.record.id),
    "lower": lambda c, job, words: c.lower(job.record.id, int(words[0])),
}  # fmt: skip
_PRIORITY = ("hold", "release", "lower")  # also while its old run ends
DEEDS = (*_DEEDS, "cancel", "requeue", "says")
