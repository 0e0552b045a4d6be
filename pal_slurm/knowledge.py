"""What is known, joined for daemon and palctl. In: store, config, cluster. Out: model.Knowledge.

The store imports the model only and the scores room is pure, so the two meet here: the binning is handed to the store.
"""

from __future__ import annotations

from pal_slurm.config import Config
from pal_slurm.model import Apps, Cluster, Knowledge, ScoreTable
from pal_slurm.scores import bin_scores
from pal_slurm.store import AppRepo, ScoreRepo, Store

DAY_S = 86_400.0
_AGEING_S = 600.0  # a table is made anew this often, so that scores that grow stale leave it


def known_apps(store: Store, config: Config) -> Apps:
    """Applications by name; the admin's map in pal.yaml wins over what the database says."""
    told = config.known_apps()
    stored = {name: entry.app for name, entry in AppRepo(store).all().items()}
    return Apps(stored | dict(told.known), told.default)


def score_table(store: Store, config: Config, cluster: Cluster, now: float) -> ScoreTable:
    return ScoreRepo(store).table(
        cluster, config.classes.names, now, config.scores.stale_after_days * DAY_S, bin_scores
    )


class KnowledgeSource:
    """Knowledge per cycle; the score table is made again only when scores, nodes or config changed, or it aged."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config
        self._made_of: tuple[object, ...] | None = None
        self._table: ScoreTable | None = None

    def knowledge(self, cluster: Cluster, now: float) -> Knowledge:
        revision = ScoreRepo(self._store).revision()
        made_of = (revision, cluster.node_names, cluster.width, int(now // _AGEING_S))
        if self._table is None or made_of != self._made_of:
            self._table = score_table(self._store, self._config, cluster, now)
            self._made_of = made_of
        return Knowledge(self._table, known_apps(self._store, self._config))
