"""What is known, joined for pald and palctl. In: store, config, cluster. Out: Apps, ScoreTable, Knowledge for a plan.

The store imports the model only and the scores room is pure, so the two meet here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pal_slurm.config import Config, told_pairs
from pal_slurm.errors import BadInput
from pal_slurm.learning.pairs import PairsSeen, estimated, said_by
from pal_slurm.learning.rate_evidence import evidence_of, model_names
from pal_slurm.learning.rates import complete
from pal_slurm.learning.spans import with_spans
from pal_slurm.model import NOBODY_SHARES, App, Apps, Cluster, Knowledge, ScoreTable, Sharers
from pal_slurm.scores import alike, binned
from pal_slurm.store import AppRepo, GpuRepo, PairRepo, ScoreRepo, Store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.retention import Keep
from pal_slurm.store.state import revisions
from pal_slurm.store.votes import VoteRepo

DAY_S = 86_400.0
RATES_S = 60.0  # what jobs showed of GPU models is looked up this often
REFRESH_S = 600.0  # scores age: a table that nobody changed is still rebuilt this often


def keep_of(config: Config) -> Keep:
    """How long rows are kept."""
    return Keep(config.database.keep_days * DAY_S, config.database.keep_runs_days * DAY_S)


def known_apps(store: Store, config: Config) -> Apps:
    """Applications by name; the admin's map in pal.yaml wins over what the database says."""
    told = config.known_apps()
    stored = {name: entry.app for name, entry in AppRepo(store).all().items()}
    return Apps(stored | dict(told.known), told.default)


def score_table(
    store: Store, config: Config, cluster: Cluster, now: float, classes: tuple[str, ...] = ()
) -> ScoreTable:
    """The scores that count now, for all classes of the config or for some of them."""
    stale_after_s = config.scores.stale_after_days * DAY_S
    classes = classes or config.classes.names
    score, known = ScoreRepo(store).aligned(cluster, classes, now, stale_after_s)
    # Four decimals are more than anybody can measure; without them 100,000 GPUs are 100,000 points to look through
    return binned(classes, score, known, lambda found: alike(np.round(found, 4)))


@dataclass(frozen=True, slots=True)
class SeenApp:
    """An application that was described or seen, who says its class, and what its jobs showed."""

    app: App
    source: str  # pal.yaml, admin, measured, default
    features: AppFeatures


def seen_apps(store: Store, config: Config) -> list[SeenApp]:
    """By name; pal.yaml wins over the database."""
    known = config.known_apps()
    told, stored, features = known.known, AppRepo(store).all(), LearnedRepo(store).features()
    found = []
    for name in sorted({*told, *stored, *features}):
        seen = features.get(name, AppFeatures(name, 0.0))
        if name in told:
            found.append(SeenApp(told[name], "pal.yaml", seen))
        elif name in stored:
            found.append(SeenApp(stored[name].app, stored[name].source, seen))
        else:  # seen, and too few are known to tell families apart
            found.append(SeenApp(replace(known.default, name=name, cls=config.classes.default), "default", seen))
    return found


def with_doubts(apps: Apps, shown: Mapping[tuple[str, str], str], classes: Sequence[str]) -> Apps:
    """A class more sensitive than the user's jobs of that name have shown is in doubt; who has shown nothing: the last.

    `shown`: by user and application. `classes`: the most sensitive first.
    """
    rank = {name: number for number, name in enumerate(classes)}
    made: dict[tuple[int, str], App] = {}  # jobs of one App are one kind of job

    def of(app: App, proof: str) -> App:
        if rank.get(app.cls, 0) >= rank.get(proof, 0):
            return app
        return made.setdefault((id(app), proof), replace(app, shown=proof))

    known = {name: of(app, classes[-1]) for name, app in apps.known.items()}
    own = {}
    for user, name in apps.own.keys() | shown.keys():
        app = apps.own.get((user, name)) or apps.known.get(name)
        if app is not None:
            own[user, name] = of(app, shown.get((user, name), classes[-1]))
    return Apps(known, of(apps.default, classes[-1]), own)


@dataclass
class KnowledgeKeeper:
    """What a cycle knows beside the snapshot, read anew only after a change."""

    store: Store
    config: Config
    _made_of: tuple[object, ...] = ()
    _made_at: float = 0.0
    _table: ScoreTable | None = None
    _apps: tuple[int, Apps] | None = None
    _rates: tuple[Apps, tuple[str, ...], float, Apps] | None = None
    _pairs: tuple[tuple[str, ...], float, PairsSeen] | None = None
    cluster: str = ""  # whose jobs' outcomes tell of GPU models

    def read(self, cluster: Cluster, now: float) -> Knowledge:
        apps, scores = revisions(self.store, "apps", "scores")
        pairs = self.pairs(cluster, now) if self.config.shares_gpus() else NOBODY_SHARES
        rules = self.config.pools.rules()
        return Knowledge(self._scores(cluster, now, scores), self._rated(cluster, now, apps), rules, pairs)

    def forget(self) -> None:
        """The configuration changed: read all anew."""
        self._table = self._apps = self._rates = self._pairs = None

    def pairs(self, cluster: Cluster, now: float) -> PairsSeen:
        """What two on one GPU cost each other."""
        last = self._pairs
        if last is None or last[0] != cluster.models or not 0 <= now - last[1] < RATES_S:
            told = last[2].told if last and last[0] == cluster.models else self._told(cluster.models)
            rows = PairRepo(self.store).every()
            said = said_by(rows, model_names(GpuRepo(self.store).current(), cluster)) if rows else {}
            guessed = estimated(told, said, cluster.models) if self.config.sharing.estimate else {}
            self._pairs = last = (cluster.models, now, PairsSeen(told, said, guessed))
        return last[2]

    def _told(self, models: tuple[str, ...]) -> Mapping[Sharers, float | None]:
        """A file that went bad after pald began tells nothing: then nobody shares."""
        try:
            return told_pairs(self.config, models)
        except BadInput:
            return {}

    def _known_apps(self, revision: int) -> Apps:
        if self._apps is None or self._apps[0] != revision:
            self._apps = revision, known_apps(self.store, self.config)
        return self._apps[1]

    def rated(self, cluster: Cluster, now: float) -> Apps:
        """With a speed on each GPU model, where there are several, and with what distance costs."""
        return self._rated(cluster, now, AppRepo(self.store).revision())

    def _rated(self, cluster: Cluster, now: float, revision: int) -> Apps:
        apps, last = self._known_apps(revision), self._rates
        if last is None or last[0] is not apps or last[1] != cluster.models or not 0 <= now - last[2] < RATES_S:
            rated = apps
            if len(cluster.models) > 1:
                rated = complete(apps, cluster.models, evidence_of(self.store, cluster, self.cluster, now))
            spanned = with_spans(rated, VoteRepo(self.store).every_app())
            proven = with_doubts(spanned, LearnedRepo(self.store).shown(), self.config.classes.names)
            self._rates = last = (apps, cluster.models, now, proven)
        return last[3]

    def _scores(self, cluster: Cluster, now: float, revision: int) -> ScoreTable:
        made_of = (revision, cluster.node_names, cluster.width)
        if self._table is None or made_of != self._made_of or not 0 <= now - self._made_at < REFRESH_S:
            self._table = score_table(self.store, self.config, cluster, now)
            self._made_of, self._made_at = made_of, now
        return self._table
