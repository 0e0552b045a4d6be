"""Scores learned from jobs. In: samples that nobody heard. Out: scores and doubts in the store, alerts of changes.

A job's first half hour says how fast it is for its application, which is how fast its GPUs are only as far as
applications repeat themselves: the noise is what jobs of that application differ by. From then on the job is held
against itself: while it keeps its pace nothing new is learned, when it changes, its GPUs or the job did.

An application counts once its class is known. Its usual pace is kept per shape (model, GPUs, nodes), so that nothing
has to be assumed of how it scales; where pal.yaml tells a base, that is where the learning begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from statistics import median

import numpy as np

from pal_slurm.ingest.jobs import STRETCH_S
from pal_slurm.model import App, Apps, Tier, base_of, comm_of, step_time
from pal_slurm.scores.combine import SIGMAS
from pal_slurm.scores.learning import PRIOR, Beliefs, expected, hear
from pal_slurm.store import Store
from pal_slurm.store.learned import AppFeatures, Baseline, CurrentScore, LearnedRepo
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo

HOLD_S = 60.0  # parts of a job on several nodes arrive one by one
LEVEL = 3  # stretches that say how fast a job is
SILENT_S = 1_200.0  # a job that said nothing for so long is over: what there is has to do
SAMPLE_NOISE = 0.02  # of a ten-minute mean of step times, within a job
APP_NOISE = 0.05  # between jobs of one application, until they have shown it
APP_WEIGHT = 4  # jobs that this assumption counts as
TOLD_BASE = 0.15  # pal.yaml's base: what a user's own settings change
UNKNOWN_BASE = 2.0
ALERT = 0.10  # a change (log) that is worth a sentence
_DAY_S = 86_400.0
TierOf = Callable[[tuple[str, ...], int], Tier]


def tier_by_count(nodes: tuple[str, ...], gpus: int) -> Tier:
    """Where nobody knows the racks."""
    if len(nodes) > 1:
        return Tier.CLUSTER
    return Tier.NODE if gpus > 1 else Tier.GPU


@dataclass
class Learned:
    samples: int = 0
    scores: int = 0
    alerts: list[Alert] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Ten minutes of a job, all its nodes together."""

    samples: tuple[JobSample, ...]
    seconds: float
    ended_at: float


def learn(store: Store, apps: Apps, now: float, tier_of: TierOf = tier_by_count) -> Learned:
    """Hear every sample that is complete, job by job, oldest first."""
    samples, repo = SampleRepo(store), LearnedRepo(store)
    done = Learned()
    unheard = samples.unheard(now - HOLD_S)
    jobs = dict.fromkeys((s.cluster, s.job) for s in unheard)
    if not jobs:
        return done
    features = repo.features()
    for cluster, job in jobs:
        every = samples.of_job(cluster, job)
        new = {s.id for s in unheard if (s.cluster, s.job) == (cluster, job)}
        app = next((s.app for s in every if s.app in apps.known), None)
        if app is None:
            samples.heard(new)
            continue
        ear = _Ear(repo, apps.known[app], features.get(app, AppFeatures(app, now)), tier_of, now)
        heard = ear.job(f"{cluster}/{job}", every, new)
        done.scores += repo.write(ear.changed.values(), ear.offsets, now)
        samples.heard(heard)
        done.samples += len(heard)
        done.alerts += ear.alerts
        if heard:
            features[app] = ear.features
            repo.set_features([ear.features])
    NightRepo(store).alert(done.alerts)
    return done


class _Ear:
    """Hears one job."""

    def __init__(self, repo: LearnedRepo, app: App, features: AppFeatures, tier_of: TierOf, now: float) -> None:
        self._repo, self._app, self._tier_of, self._now = repo, app, tier_of, now
        self.features = features
        self.changed: dict[int, CurrentScore] = {}
        self.offsets: dict[str, float] = {}
        self.alerts: list[Alert] = []

    def job(self, name: str, every: Sequence[JobSample], new: set[int]) -> set[int]:
        """Returns the samples that were heard; those of a job that is too young wait."""
        self._cards = self._repo.cards(uuid for s in every for uuid in s.gpus)
        self._ids = sorted(card.id for card in self._cards.values())
        self._by_id = {card.id: card for card in self._cards.values()}
        self._known = self._repo.scores(self._ids)
        stretches = _stretches(every)
        models = {card.model for card in self._cards.values()}
        if len(models) != 1 or not stretches:
            return new  # a mixed job, or GPUs that nobody has seen: nothing can be said
        nodes = tuple(sorted({s.node for s in every}))
        self._shape = f"{models.pop()}|{len(self._ids)}|{len(nodes)}"
        self._tier = self._tier_of(nodes, len(self._ids))
        offset = self._repo.offset(name)
        heard: set[int] = set()
        if offset is None:
            first = stretches[:LEVEL]
            over = self._now - stretches[-1].ended_at > SILENT_S
            if len(first) < LEVEL and not over:
                return set()
            offset = self.offsets[name] = self._level(first)
            heard |= {s.id for stretch in first for s in stretch.samples} & new
            stretches = stretches[LEVEL:]
        for stretch in stretches:
            fresh = {s.id for s in stretch.samples} & new
            if fresh:
                self._pace(name, log(stretch.seconds) - offset, stretch.ended_at)
                heard |= fresh
        return heard

    def _level(self, first: Sequence[_Stretch]) -> float:
        """How fast the job is, against what is usual for its application; returns log seconds on median GPUs."""
        at = first[-1].ended_at
        measured = median(log(stretch.seconds) for stretch in first)
        base = self.features.base.get(self._shape) or self._told_base()
        noise = self.features.noise or APP_NOISE
        within = SAMPLE_NOISE / sqrt(len(first))
        beliefs = self._beliefs(at)
        pace = expected(beliefs)
        self._put(hear(beliefs, measured - base.mean, sqrt(base.var + noise**2 + within**2), self._profiled()), at, "")
        self._learn_base(base, measured - pace.mean, pace.var + noise**2 + within**2, noise)
        return measured - expected(self._beliefs(at)).mean

    def _pace(self, name: str, ratio: float, at: float) -> None:
        """A later stretch: only what is off its own pace says anything new."""
        beliefs = self._beliefs(at)
        pace = expected(beliefs)
        if abs(ratio - pace.mean) > 3 * sqrt(pace.var + SAMPLE_NOISE**2) or pace.var > (2 * SAMPLE_NOISE) ** 2:
            self._put(hear(beliefs, ratio, SAMPLE_NOISE, self._profiled()), at, name)

    def _told_base(self) -> Baseline:
        model = self._shape.split("|")[0]
        if model in self._app.base:
            told = step_time(base_of(self._app, model), 1.0, float(comm_of(self._app, self._tier)))
            return Baseline(log(told), TOLD_BASE**2, 0)
        return Baseline(0.0, UNKNOWN_BASE**2, 0)

    def _learn_base(self, base: Baseline, residual: float, var: float, noise: float) -> None:
        gain = base.var / (base.var + var)
        mean = base.mean + gain * (residual - base.mean)
        shapes = {**self.features.base, self._shape: Baseline(mean, base.var * (1 - gain), base.jobs + 1)}
        if base.jobs >= 1:
            count = APP_WEIGHT + sum(b.jobs for b in shapes.values())
            surplus = max((residual - base.mean) ** 2 - base.var - (var - noise**2), 0.0)
            noise = sqrt(max(noise**2 + (min(surplus, (4 * noise) ** 2) - noise**2) / count, 1e-5))
        self.features = replace(self.features, base=shapes, noise=noise, seen_at=self._now)

    def _beliefs(self, at: float) -> Beliefs:
        scores = [self._score(gpu) for gpu in self._ids]
        beliefs = Beliefs(
            np.array([log(s.score) if s else 0.0 for s in scores]), np.array([_doubt(s) ** 2 for s in scores])
        )
        return beliefs.aged(np.array([(at - s.measured_at) / _DAY_S if s else 0.0 for s in scores]))

    def _profiled(self) -> Beliefs | None:
        """What the nights say of all of its GPUs; None: some were never profiled."""
        scores = [self._score(gpu) for gpu in self._ids]
        told = [(s.profiled, s.profiled_error) for s in scores if s and s.profiled and s.profiled_error]
        if len(told) < len(scores):
            return None
        return Beliefs(np.log([score for score, _ in told]), np.array([(error or 0.0) ** 2 for _, error in told]))

    def _score(self, gpu: int) -> CurrentScore | None:
        return self.changed.get(gpu) or self._known.get((gpu, self._app.cls))

    def _put(self, after: Beliefs, at: float, job: str) -> None:
        """Scores of the GPUs as they are now believed; one that was profiled after this was measured stays."""
        for gpu, mean, var in zip(self._ids, after.mean.tolist(), after.var.tolist(), strict=True):
            before = self._score(gpu)
            if before is not None and before.measured_at > at:
                continue
            error = sqrt(var)
            surer = before is None or error < 0.95 * _doubt(before) or len(self._ids) == 1
            score = CurrentScore(
                gpu, self._app.cls, exp(mean), exp(mean - SIGMAS * error), exp(mean + SIGMAS * error),
                at if surer or before is None else before.measured_at, (before.jobs if before else 0) + 1,
                before.profiled if before else None, before.profiled_error if before else None,
            )  # fmt: skip
            self.changed[gpu] = score
            if job and before is not None:
                self._alert(before, score, error, job, at)

    def _alert(self, before: CurrentScore, now: CurrentScore, error: float, job: str, at: float) -> None:
        usual = before.profiled or 1.0
        off, was = log(now.score / usual), log(before.score / usual)
        card = self._by_id[now.gpu]
        slower = off > ALERT and off > 2 * error
        recovered = abs(off) <= ALERT / 2 and was > ALERT and error < ALERT
        if not slower and not recovered:
            return
        kind = "slower" if slower else "recovered"
        said = (
            f"{card.node}:{card.slot} ({card.uuid}) {'became slower' if slower else 'recovered'}: class {now.cls} "
            f"{now.score:.2f}, was {usual:.2f}, as job {job} shows"
        )
        self.alerts.append(Alert(f"{kind}:{card.uuid}:{now.cls}:{int(at // 3600)}", kind, said, at))


def _doubt(score: CurrentScore | None) -> float:
    """Standard error of a score's logarithm."""
    if score is None or score.ci_low is None or score.ci_high is None or not 0 < score.ci_low < score.ci_high:
        return PRIOR if score is None else PRIOR / 2
    return log(score.ci_high / score.ci_low) / (2 * SIGMAS)


def _stretches(every: Sequence[JobSample]) -> list[_Stretch]:
    groups: dict[int, list[JobSample]] = {}
    for sample in every:
        if sample.step_seconds is not None:
            groups.setdefault(int(sample.begun_at // STRETCH_S), []).append(sample)
    return [
        _Stretch(tuple(some), median(s.step_seconds or 0.0 for s in some), max(s.ended_at for s in some))
        for _, some in sorted(groups.items())
    ]


def shapes_told(base: Mapping[str, Baseline]) -> dict[str, float]:
    """Seconds per step by shape, for people."""
    return {shape: round(exp(b.mean), 4) for shape, b in base.items()}
