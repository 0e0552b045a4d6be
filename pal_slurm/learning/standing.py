"""What is believed of one job's GPUs, and what its user says of them. In: beliefs. Out: scores, votes, alerts to store.

A score stays within what the users' votes allow; what a job claims beyond that is kept beside it, and waits for a
witness: another user, or the next night.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log, sqrt

import numpy as np

from pal_slurm.scores.learning import JUMP, PRIOR, Beliefs
from pal_slurm.scores.medians import SIGMAS
from pal_slurm.scores.witness import Anchor, Vote, allowed
from pal_slurm.store.learned import Card, CurrentScore, LearnedRepo
from pal_slurm.store.nights import Alert
from pal_slurm.store.votes import UserVote, VoteRepo

ALERT = 0.10  # a change (log) that is worth a sentence, and a claim that is worth a witness
_DAY_S = 86_400.0


class Standing:
    """The GPUs of one job."""

    def __init__(self, cards: Iterable[Card], repo: LearnedRepo, votes: VoteRepo, cls: str, user: str) -> None:
        self._by_id = {card.id: card for card in cards}
        self._ids = sorted(self._by_id)
        self._known, self._cls, self._user = repo.scores(self._ids), cls, user
        self._votes: dict[int, dict[str, UserVote]] = {gpu: {} for gpu in self._ids}
        for vote in votes.of(self._ids, cls):
            if vote.heard_at > self._measured_at(vote.gpu_id):  # the nights since then have the word
                self._votes[vote.gpu_id][vote.user] = vote
        self.changed: dict[int, CurrentScore] = {}
        self.voted: dict[int, UserVote] = {}
        self.alerts: list[Alert] = []

    def beliefs(self, at: float) -> Beliefs:
        """By everything that was heard."""
        scores = [self._score(gpu) for gpu in self._ids]
        beliefs = Beliefs(
            np.array([log(s.score) if s else 0.0 for s in scores]), np.array([_doubt(s) ** 2 for s in scores])
        )
        return beliefs.aged(np.array([(at - s.measured_at) / _DAY_S if s else 0.0 for s in scores]))

    def mine(self, at: float) -> Beliefs:
        """By what was measured and this user's jobs alone."""
        own = [self._votes[gpu].get(self._user) for gpu in self._ids]
        anchors = [self._anchor(gpu) for gpu in self._ids]
        since = [self._measured_at(gpu) or at for gpu in self._ids]
        beliefs = Beliefs(
            np.array([v.mean if v else a.mean for v, a in zip(own, anchors, strict=True)]),
            np.array([v.var if v else _prior(a) ** 2 for v, a in zip(own, anchors, strict=True)]),
        )
        heard = np.array([v.heard_at if v else then for v, then in zip(own, since, strict=True)])
        return beliefs.aged((at - heard) / _DAY_S)

    def profiled(self) -> Beliefs | None:
        """What the nights say of all of its GPUs; None: some were never profiled."""
        scores = [self._score(gpu) for gpu in self._ids]
        told = [(s.profiled, s.profiled_error) for s in scores if s and s.profiled and s.profiled_error]
        if len(told) < len(scores):
            return None
        return Beliefs(np.log([score for score, _ in told]), np.array([(error or 0.0) ** 2 for _, error in told]))

    def vote(self, after: Beliefs, at: float) -> None:
        for gpu, mean, var in zip(self._ids, after.mean.tolist(), after.var.tolist(), strict=True):
            if self._measured_at(gpu) <= at:
                vote = UserVote(gpu, self._cls, self._user, mean, var, at)
                self.voted[gpu] = self._votes[gpu][self._user] = vote

    def put(self, after: Beliefs, at: float, job: str) -> None:
        """Scores of the GPUs as they are now believed; one that was profiled after this was measured stays."""
        for gpu, claimed, var in zip(self._ids, after.mean.tolist(), after.var.tolist(), strict=True):
            before, anchor = self._score(gpu), self._anchor(gpu)
            if before is not None and before.measured_at > at:
                continue
            votes = [Vote(v.mean, v.var, v.heard_at) for v in self._votes[gpu].values()]
            low, high = allowed(anchor, votes)
            mean = min(max(claimed, low), high)
            beyond = abs(claimed - mean)
            error = sqrt(var + min(beyond, JUMP) ** 2)
            surer = before is None or error < 0.95 * _doubt(before) or len(self._ids) == 1
            score = CurrentScore(
                gpu, self._cls, exp(mean), exp(mean - SIGMAS * error), exp(mean + SIGMAS * error),
                at if surer or before is None else before.measured_at, ((before.jobs if before else 0) or 0) + 1,
                exp(anchor.mean) if anchor.measured else None, anchor.error, self._measured_at(gpu) or None,
                exp(min(max(claimed, -50.0), 50.0)) if beyond > ALERT else None,
                before.source if before else "jobs",
            )  # fmt: skip
            self.changed[gpu] = score
            if job and before is not None:
                self._alert(before, score, error, job, at)

    def _score(self, gpu: int) -> CurrentScore | None:
        return self.changed.get(gpu) or self._known.get((gpu, self._cls))

    def _anchor(self, gpu: int) -> Anchor:
        """What was measured, before jobs were heard: by nights, or as it was imported."""
        score = self._known.get((gpu, self._cls))
        if score is None or (score.profiled is None and score.source == "jobs"):
            return Anchor()
        if score.profiled is None:
            return Anchor(log(score.score), None if score.ci_low is None else _doubt(score), True)
        return Anchor(log(score.profiled), score.profiled_error, True)

    def _measured_at(self, gpu: int) -> float:
        """0: never."""
        score = self._known.get((gpu, self._cls))
        if score is None or (score.profiled is None and score.source == "jobs"):
            return 0.0
        return score.measured_at if score.profiled is None else score.profiled_at or 0.0

    def _alert(self, before: CurrentScore, now: CurrentScore, error: float, job: str, at: float) -> None:
        card, usual = self._by_id[now.gpu_id], before.profiled or 1.0
        where = f"{card.node}:{card.slot} ({card.uuid})"
        if now.asked is not None:
            said = (
                f"{where}: class {now.cls} {now.asked:.2f}, was {usual:.2f}, says job {job}; one user's word alone: "
                "it waits for a witness"
            )
            if before.asked is None:
                self.alerts.append(Alert(f"asked:{card.uuid}:{now.cls}:{int(at // _DAY_S)}", "asked", said, at))
            return
        off, was = log(now.score / usual), log(before.score / usual)
        slower = off > ALERT and off > 2 * error
        recovered = abs(off) <= ALERT / 2 and was > ALERT and error < ALERT
        if not slower and not recovered:
            return
        kind = "slower" if slower else "recovered"
        said = (
            f"{where} {'became slower' if slower else 'recovered'}: class {now.cls} "
            f"{now.score:.2f}, was {usual:.2f}, as job {job} shows"
        )
        self.alerts.append(Alert(f"{kind}:{card.uuid}:{now.cls}:{int(at // 3600)}", kind, said, at))


def _prior(anchor: Anchor) -> float:
    if not anchor.measured:
        return PRIOR
    return PRIOR / 2 if anchor.error is None else anchor.error


def _doubt(score: CurrentScore | None) -> float:
    """Standard error of a score's logarithm."""
    if score is None or score.ci_low is None or score.ci_high is None or not 0 < score.ci_low < score.ci_high:
        return PRIOR if score is None else PRIOR / 2
    return log(score.ci_high / score.ci_low) / (2 * SIGMAS)
