"""What a cycle knows beside the snapshot. In: store and pal.yaml. Out: Knowledge, read anew only after a change."""

from __future__ import annotations

from dataclasses import dataclass, field

from pal_slurm.config import Config
from pal_slurm.model import Apps, Cluster, Knowledge, ScoreTable
from pal_slurm.scores.bins import bin_scores
from pal_slurm.store import AppRepo, ScoreRepo

DAY_S = 86_400.0
REFRESH_S = 600.0  # scores age: a table that nobody changed is still rebuilt this often


@dataclass
class KnowledgeKeeper:
    scores: ScoreRepo
    apps: AppRepo
    config: Config
    _made_of: tuple[object, ...] = ()
    _made_at: float = 0.0
    _table: ScoreTable | None = field(default=None)
    _apps: tuple[int, Apps] | None = field(default=None)

    def read(self, cluster: Cluster, now: float) -> Knowledge:
        return Knowledge(self._score_table(cluster, now), self.known_apps())

    def forget(self) -> None:
        """The configuration changed: read all anew."""
        self._table = self._apps = None

    def known_apps(self) -> Apps:
        """What the store learnt or was told, under what pal.yaml says."""
        revision = self.apps.revision()
        if self._apps is None or self._apps[0] != revision:
            configured = self.config.known_apps()
            stored = {name: kept.app for name, kept in self.apps.all().items()}
            self._apps = revision, Apps({**stored, **configured.known}, configured.default)
        return self._apps[1]

    def _score_table(self, cluster: Cluster, now: float) -> ScoreTable:
        made_of = (self.scores.revision(), cluster.node_names, cluster.width)
        if self._table is None or made_of != self._made_of or not 0 <= now - self._made_at < REFRESH_S:
            stale_after = self.config.scores.stale_after_days * DAY_S
            self._table = self.scores.table(cluster, self.config.classes.names, now, stale_after, bin_scores)
            self._made_of, self._made_at = made_of, now
        return self._table
