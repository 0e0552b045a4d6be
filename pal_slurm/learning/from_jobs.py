"""Scores learned from jobs. In: samples that nobody heard. Out: scores, doubts and votes in the store, alerts.

A job's first half hour says how fast it is for its application, which is how fast its GPUs are only as far as
applications repeat themselves: the noise is what jobs of that application differ by. From then on the job is held
against itself: while it keeps its pace nothing new is learned, when it changes, its GPUs or the job did.

Everything is heard twice: by what is believed of the GPUs, and by what this user's jobs alone say of them, his vote.
How far the first may go, the votes of all users decide (scores/witness.py): what one of them says moves it a little.

What a job did while another had the same GPUs says nothing of them: it is held against the job's own pace alone, and
tells what the two cost each other (beside.py).

An application counts once its class is known. Its usual pace is kept per user and shape (model, GPUs, nodes), so that
nothing has to be assumed of how it scales; where pal.yaml tells a base, that is where the learning begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import median

from pal_slurm.intake.samples import STRETCH_S
from pal_slurm.learning.base_times import APP_NOISE, learned, together, usual
from pal_slurm.learning.beside import PairEar
from pal_slurm.learning.company import Company, Sorted
from pal_slurm.learning.standing import Standing
from pal_slurm.model import App, Apps, Tier
from pal_slurm.scores.learning import Beliefs, expected, hear
from pal_slurm.store import OutcomeRepo, PairRepo, Store
from pal_slurm.store.learned import AppFeatures, Baseline, LearnedRepo, Offset
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.store.votes import UserApp, VoteRepo
from pal_slurm.words import digits

HOLD_S = 60.0  # parts of a job on several nodes arrive one by one
LEVEL = 3  # stretches that say how fast a job is
SILENT_S = 1_200.0  # a job that said nothing for so long is over: what there is has to do
SAMPLE_NOISE = 0.02  # of a ten-minute mean of step times, within a job
LONGEST_ID = 10  # digits of a job's number
LEVEL_VAR = SAMPLE_NOISE**2 * (1 + 1 / LEVEL)  # of one stretch against the first ones
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
    begun_at: float
    ended_at: float

    def ids(self, new: set[int]) -> set[int]:
        return {s.id for s in self.samples} & new


def learn(store: Store, apps: Apps, now: float, tier_of: TierOf = tier_by_count) -> Learned:
    """Hear every sample that is complete, job by job, oldest first."""
    samples, repo, votes = SampleRepo(store), LearnedRepo(store), VoteRepo(store)
    done = Learned()
    unheard = samples.unheard(now - HOLD_S)
    jobs = dict.fromkeys((s.cluster, s.job) for s in unheard)
    if not jobs:
        return done
    features, pairs = repo.features(), PairRepo(store)
    company = {cluster: _company(store, cluster, jobs, now) for cluster in {cluster for cluster, _ in jobs}}
    for cluster, job in jobs:
        every = samples.of_job(cluster, job)
        new = {s.id for s in unheard if (s.cluster, s.job) == (cluster, job)}
        app = next((s.app for s in every if s.app in apps.known), None)
        if app is None:
            samples.heard(new)
            continue
        user = next((s.user for s in every if s.user), "")
        ear = _Ear(repo, votes, apps.known[app], user, tier_of, now)
        ear.beside = PairEar(app, user, pairs.of(app, user) if company[cluster].any else {})
        heard = ear.job(f"{cluster}/{job}", company[cluster].sort(job, _stretches(every)), every, new)
        if ear.standing is not None:
            votes.put(ear.standing.voted.values())
            done.scores += repo.write(ear.standing.changed.values(), ear.offsets, now)
            done.alerts += ear.standing.alerts
        pairs.put(ear.beside.changed.values())
        samples.heard(heard)
        done.samples += len(heard)
        if heard:
            votes.put_app(ear.mine)
            features[app] = together(features.get(app, AppFeatures(app, now)), {**ear.others, user: ear.mine}, now)
            repo.set_features([features[app]])
    NightRepo(store).alert(done.alerts)
    return done


def _company(store: Store, cluster: str, jobs: Iterable[tuple[str, str]], now: float) -> Company:
    """Of all of these jobs, as far back as the first of them began."""
    repo = OutcomeRepo(store, cluster)
    ours = repo.of_jobs(
        [int(job) for where, job in jobs if where == cluster and digits(job) and len(job) <= LONGEST_ID]
    )
    since = min((start.start for start in ours if start.shared), default=None)
    return Company([] if since is None else repo.shared(since, now))


class _Ear:
    """Hears one job of one user."""

    beside: PairEar

    def __init__(
        self, repo: LearnedRepo, votes: VoteRepo, app: App, user: str, tier_of: TierOf, now: float
    ) -> None:  # fmt: skip
        self._repo, self._votes, self._app, self._user, self._tier_of, self._now = repo, votes, app, user, tier_of, now
        self.others = votes.apps(app.name)
        self.mine = self.others.pop(user, UserApp(app.name, user, now))
        self.offsets: dict[str, Offset] = {}
        self.standing: Standing | None = None

    def job(self, name: str, ran: Sorted[_Stretch], every: Sequence[JobSample], new: set[int]) -> set[int]:
        """Returns the samples that were heard; those of a job that is too young wait."""
        cards = self._repo.cards(uuid for s in every for uuid in s.gpus)
        stretches = ran.alone
        models = {card.model for card in cards.values()}
        last = max((s.ended_at for s in (*stretches, *(one for one, _ in ran.beside))), default=None)
        if len(models) != 1 or last is None:
            return new  # a mixed job, or GPUs that nobody has seen: nothing can be said
        nodes = tuple(sorted({s.node for s in every}))
        self._model, self._gpus = models.pop(), len(cards)
        self._shape = f"{self._model}|{self._gpus}|{len(nodes)}"
        self._tier = self._tier_of(nodes, self._gpus)
        self.standing = standing = Standing(cards.values(), self._repo, self._votes, self._app.cls, self._user)
        offset = self._repo.offset(name)
        heard = {id_ for stretch in ran.neither for id_ in stretch.ids(new)}
        if offset is None:
            first = stretches[:LEVEL]
            over = self._now - last > SILENT_S
            if len(first) < LEVEL and not over:
                return heard
            if first:
                offset = self.offsets[name] = self._level(standing, first)
                heard |= {id_ for stretch in first for id_ in stretch.ids(new)}
                stretches = stretches[LEVEL:]
        for stretch in stretches if offset is not None else ():
            fresh = stretch.ids(new)
            if fresh and offset is not None:
                self._pace(standing, name, log(stretch.seconds), offset, stretch.ended_at)
                heard |= fresh
        for stretch, other in ran.beside:
            fresh = stretch.ids(new)
            if fresh:
                self._together(standing, stretch, other.app or "", offset)
                heard |= fresh
        return heard

    def _together(self, standing: Standing, stretch: _Stretch, other: str, offset: Offset | None) -> None:
        """How much longer it took than alone: by its own pace, or by what is usual for it where it never was alone."""
        pace = expected(standing.beliefs(stretch.ended_at))
        if offset is not None:
            alone, var = offset.all + pace.mean, LEVEL_VAR
        else:
            base = usual(self._app, self._shape, self._tier, self.mine, self.others.values())
            alone, var = base.mean + pace.mean, base.var + (self.mine.noise or APP_NOISE) ** 2 + pace.var
        self.beside.saw(other, self._model, self._gpus, log(stretch.seconds) - alone, var, stretch.ended_at)

    def _level(self, standing: Standing, first: Sequence[_Stretch]) -> Offset:
        """How fast the job is, against what is usual for its application; returns log seconds on median GPUs."""
        at = first[-1].ended_at
        measured = median(log(stretch.seconds) for stretch in first)
        base = usual(self._app, self._shape, self._tier, self.mine, self.others.values())
        noise = self.mine.noise or APP_NOISE
        within = SAMPLE_NOISE / sqrt(len(first))
        beliefs, mine = standing.beliefs(at), standing.mine(at)
        pace = expected(beliefs)
        ratio, doubt = measured - base.mean, sqrt(base.var + noise**2 + within**2)
        usually = standing.profiled()
        standing.vote(hear(mine, ratio, doubt, usually), at)
        standing.put(hear(beliefs, ratio, doubt, usually), at, "")
        self.mine = learned(
            self.mine, self._shape, base, measured - pace.mean, pace.var + noise**2 + within**2, self._now
        )
        return Offset(measured - expected(standing.beliefs(at)).mean, measured - expected(standing.mine(at)).mean)

    def _pace(self, standing: Standing, name: str, seconds: float, offset: Offset, at: float) -> None:
        """A later stretch: only what is off its own pace says anything new."""
        usually = standing.profiled()
        if _news(mine := standing.mine(at), seconds - offset.mine):
            standing.vote(hear(mine, seconds - offset.mine, SAMPLE_NOISE, usually), at)
        if _news(beliefs := standing.beliefs(at), seconds - offset.all):
            standing.put(hear(beliefs, seconds - offset.all, SAMPLE_NOISE, usually), at, name)


def _news(beliefs: Beliefs, ratio: float) -> bool:
    pace = expected(beliefs)
    far = abs(ratio - pace.mean) > 3 * sqrt(pace.var + SAMPLE_NOISE**2)
    return far or pace.var > (2 * SAMPLE_NOISE) ** 2


def _stretches(every: Sequence[JobSample]) -> list[_Stretch]:
    groups: dict[int, list[JobSample]] = {}
    for sample in every:
        if sample.step_seconds is not None:
            groups.setdefault(int(sample.begun_at // STRETCH_S), []).append(sample)
    return [
        _Stretch(
            tuple(some),
            median(s.step_seconds or 0.0 for s in some),
            min(s.begun_at for s in some),
            max(s.ended_at for s in some),
        )
        for _, some in sorted(groups.items())
    ]


def shapes_told(base: Mapping[str, Baseline]) -> dict[str, float]:
    """Seconds per step by shape, for people."""
    return {shape: round(exp(b.mean), 4) for shape, b in base.items()}
