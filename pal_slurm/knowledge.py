"""What is known, joined for pald and palctl. In: store, config, cluster. Out: Apps, ScoreTable, as pald uses them.

The store imports the model only and the scores room is pure, so the two meet here: the binning is handed to the store.
"""

from __future__ import annotations

from pal_slurm.config import Config
from pal_slurm.model import Apps, Cluster, ScoreTable
from pal_slurm.scores import alike
from pal_slurm.store import AppRepo, ScoreRepo, Store

DAY_S = 86_400.0


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
    return ScoreRepo(store).table(cluster, classes or config.classes.names, now, stale_after_s, alike)
