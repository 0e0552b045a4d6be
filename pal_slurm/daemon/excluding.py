"""The actuator `exclude`: waiting jobs are kept off slower nodes. In: a round, planned. Out: the same, with edits.

For sites where no job waits for us (no job_submit.lua, no lease): Slurm starts each job when and where it likes, and
all that we say is where not. What was said is taken back when it is no more of use, would make the job wait longer than
a slower node costs it, or has made it decline one for so long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from pal_slurm.config import Config
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.round import Round, Wish
from pal_slurm.guard import Refusal, check_exclusion
from pal_slurm.model import Action, Decision, Exclude, Include, Job, Reason, RunTimes
from pal_slurm.policy.exclusion import Exclusion, ExclusionRules, exclusions


@dataclass
class Excluding:
    entries: Entries
    config: Config
    run_times: RunTimes

    def decide(self, round: Round) -> None:
        """Into the round: what is said of these jobs, and the edits."""
        keys = self.config.exclude
        rules = ExclusionRules(keys.worse, keys.most_wait_s)
        not_ours = outside(round.view.pending, self.config)
        view = round.view.awake  # nobody is kept off a node so that another is woken
        found = exclusions(
            view, round.knowledge, rules, self.run_times, lambda job: job.id in not_ours or self._enough(job)
        )
        wanted = {found.job.id: found for found in found if not self._waited(found, round.now)}
        decided = {number: _decision(number) for number in wanted}
        round.decisions = tuple(
            replace(decided[d.job], rank=d.rank) if d.job in decided else d for d in round.decisions
        )
        on_record = {t.job.id for t in round.fates if t.job is not None and isinstance(t.intent.edit, Exclude)}
        made = self._differ(round.view.pending, wanted, on_record)
        round.exclusions = list(self._permitted(made, decided, round))

    def _enough(self, job: Job) -> bool:
        return self.entries[job.key].excluded_enough

    def _waited(self, found: Exclusion, now: float) -> bool:
        """It has declined such nodes for as long as they would have cost it: from now on it takes what comes."""
        entry = self.entries[found.job.key]
        if found.declines and entry.declined_since is None:
            entry.declined_since = now
        if entry.declined_since is not None and now - entry.declined_since >= found.wait_s:
            entry.excluded_enough = True
        return entry.excluded_enough

    def _differ(
        self, jobs: Iterable[Job], wanted: dict[int, Exclusion], on_record: Collection[int]
    ) -> Iterator[tuple[Job, Exclude | Include]]:
        """What stands is left as it is as long as none of its nodes should be open: each edit costs slurmctld time."""
        for job in jobs:
            want = wanted.get(job.id)
            if want is None:
                if job.excluded is not None:
                    yield job, Include(job.id, seen=job)
            elif job.excluded is None or job.id not in on_record or not job.excluded.nodes <= set(want.nodes):
                yield job, Exclude(job.id, None, want.nodes, seen=job)

    def _permitted(
        self, edits: Iterable[tuple[Job, Exclude | Include]], decided: dict[int, Decision], round: Round
    ) -> Iterator[Wish]:
        for job, edit in edits:
            if isinstance(edit, Exclude):
                verdict = check_exclusion(decided[job.id], edit.nodes, round.view.awake)
                if isinstance(verdict, Refusal):
                    round.report.refusals[verdict.reason] += 1
                    if job.excluded is not None:
                        yield Wish(Include(job.id, seen=job), job.submit)
                    continue
            yield Wish(edit, job.submit, decided.get(job.id))


def _decision(job: int) -> Decision:
    return Decision(job, None, Action.EXCLUDE, Reason.SLOWER_NODES)


def given_back(round: Round, but: Iterable[Wish] = ()) -> list[Wish]:
    """Each job's own list, where there is no more excluding: under another actuator, in a pause."""
    others = {wish.edit.job for wish in but}
    mine = (job for job in round.snapshot.pending if job.excluded is not None and job.id not in others)
    return [Wish(Include(job.id), job.submit) for job in mine]
