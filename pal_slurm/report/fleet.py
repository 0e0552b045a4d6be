"""The figures of the fleet's page, gathered. In: the store, the scores that count, applications. Out: a Fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pal_slurm.errors import StoreError
from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.report.figures import AppPoint, Fleet, Gpu, Mark, NightCount, RaisedAlert, State, Worst
from pal_slurm.report.history import day, night_of
from pal_slurm.report.scores import outlier_rows
from pal_slurm.report.spread import coverage, fresh, histograms, spreads
from pal_slurm.report.text import age_days
from pal_slurm.report.trends import DAY_S, drifts, own_history, trends
from pal_slurm.store import PlacedScore, ScoreRepo, Stay, Store
from pal_slurm.store.cards import CardRepo
from pal_slurm.store.clusters import known_clusters
from pal_slurm.store.fleet import FleetRepo
from pal_slurm.store.history import HistoryRepo
from pal_slurm.store.nights import NightRepo

WORST = 10
ALERTS = 20


@dataclass(frozen=True, eq=False)
class PlannedWith:
    """What pald plans with at this moment, and since when it doesn't believe a score any more."""

    stays: Sequence[Stay]
    cluster: Cluster
    table: ScoreTable
    stale_after_days: float


def fleet_of(store: Store, known: PlannedWith, apps: Sequence[AppPoint], nights: int, now: float) -> Fleet:
    if not known.stays:
        raise StoreError(
            "no GPU is known yet: there is nothing to report. Profile some with: palctl profile run, "
            "or import scores with: palctl scores import FILE"
        )
    classes = known.table.classes
    stored = [score for score in ScoreRepo(store).placed() if score.cls in classes]
    gpus = gpus_of(known, stored, now)
    repo, fleet = NightRepo(store), FleetRepo(store)
    newest = repo.newest() or night_of(now)
    first = newest - nights + 1
    models: dict[str, int] = {}
    for gpu in gpus:
        models[gpu.model] = models.get(gpu.model, 0) + 1
    outliers = {(str(row["uuid"]), str(row["class"])) for row in outlier_rows(_fresh(gpus, stored), classes, now)}
    return Fleet(
        made_at=now,
        clusters=tuple(known_clusters(store)),
        classes=classes,
        stale_after_days=known.stale_after_days,
        window_nights=nights,
        models=dict(sorted(models.items())),
        nodes=len({gpu.node for gpu in gpus}),
        gpus=gpus,
        coverage=coverage(gpus, classes),
        by_night=tuple(NightCount(day(night), count) for night, count in fleet.profiled(first).items()),
        spread=spreads(gpus, classes),
        histograms=histograms(gpus, classes),
        trends=trends(fleet.levels(first)),
        drift=drifts(HistoryRepo(store).fleet(classes, first), {stay.uuid: stay for stay in known.stays}),
        outliers=len({uuid for uuid, _ in outliers}),
        worst=_worst(CardRepo(store), gpus, stored, outliers, now),
        apps=tuple(apps),
        alerts=tuple(RaisedAlert(a.raised_at, a.kind, a.said) for a in repo.alerts(now - nights * DAY_S)[:ALERTS]),
    )


def gpus_of(known: PlannedWith, stored: Sequence[PlacedScore], now: float) -> tuple[Gpu, ...]:
    """Each GPU that sits somewhere, with what is known of it for each class."""
    by_card = {(score.uuid, score.cls): score for score in stored}
    index, table = known.cluster.node_index, known.table
    return tuple(
        Gpu(
            stay.node,
            stay.slot,
            stay.uuid,
            stay.model,
            {
                cls: _mark(by_card.get((stay.uuid, cls)), bool(table.known[c, index[stay.node], stay.slot]), now)
                for c, cls in enumerate(table.classes)
            },
        )
        for stay in known.stays
    )


def _mark(score: PlacedScore | None, counts: bool, now: float) -> Mark:
    if score is None:
        return Mark(State.NEVER)
    state = State.FRESH if counts else State.STALE
    return Mark(state, score.score, score.ci_low, score.ci_high, score.nights, age_days(score.measured_at, now))


def _fresh(gpus: Sequence[Gpu], stored: Sequence[PlacedScore]) -> list[PlacedScore]:
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return [score for score in stored if fresh(by_uuid[score.uuid], score.cls) is not None]


def _worst(
    repo: CardRepo, gpus: Sequence[Gpu], stored: Sequence[PlacedScore], outliers: set[tuple[str, str]], now: float
) -> tuple[Worst, ...]:
    """One row per GPU: a card that is slow for every class is one slow card."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    slowest: dict[str, PlacedScore] = {}
    for score in sorted(_fresh(gpus, stored), key=lambda s: -s.score):
        if score.score > 1.0:
            slowest.setdefault(score.uuid, score)
        if len(slowest) == WORST:
            break
    return tuple(_evidence(repo, by_uuid[uuid], score, outliers, now) for uuid, score in slowest.items())


def _evidence(repo: CardRepo, gpu: Gpu, s: PlacedScore, outliers: set[tuple[str, str]], now: float) -> Worst:
    return Worst(
        node=gpu.node,
        slot=gpu.slot,
        uuid=gpu.uuid,
        model=gpu.model,
        cls=s.cls,
        score=s.score,
        low=s.ci_low,
        high=s.ci_high,
        nights=s.nights,
        runs=s.n_runs,
        stalls=s.stalls,
        node_stalls=s.node_stalls,
        node_part=s.node_part,
        intermittent=s.intermittent,
        jobs=s.jobs,
        age_days=age_days(s.measured_at, now),
        outlier=(s.uuid, s.cls) in outliers,
        others={cls: score for cls in gpu.marks if cls != s.cls and (score := fresh(gpu, cls)) is not None},
        history=own_history(repo, gpu.uuid, s.cls),
    )
