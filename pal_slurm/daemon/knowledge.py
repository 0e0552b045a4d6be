"""What a cycle knows beside the snapshot. In: store and pal.yaml. Out: Knowledge, read anew only after a change."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.config import Config
from pal_slurm.knowledge import known_apps, score_table
from pal_slurm.model import Apps, Cluster, Knowledge, ScoreTable
from pal_slurm.store import AppRepo, ScoreRepo, Store

REFRESH_S = 600.0  # scores age: a table that nobody changed is still rebuilt this often


@dataclass
class KnowledgeKeeper:
    store: Store
    config: Config
    _made_of: tuple[object, ...] = ()
    _made_at: float = 0.0
    _table: ScoreTable | None = None
    _apps: tuple[int, Apps] | None = None

    def read(self, cluster: Cluster, now: float) -> Knowledge:
        return Knowledge(self._scores(cluster, now), self._known_apps())

    def forget(self) -> None:
        """The configuration changed: read all anew."""
        self._table = self._apps = None

    def _known_apps(self) -> Apps:
        revision = AppRepo(self.store).revision()
        if self._apps is None or self._apps[0] != revision:
            self._apps = revision, known_apps(self.store, self.config)
        return self._apps[1]

    def _scores(self, cluster: Cluster, now: float) -> ScoreTable:
        made_of = (ScoreRepo(self.store).revision(), cluster.node_names, cluster.width)
        if self._table is None or made_of != self._made_of or not 0 <= now - self._made_at < REFRESH_S:
            self._table = score_table(self.store, self.config, cluster, now)
            self._made_of, self._made_at = made_of, now
        return self._table
