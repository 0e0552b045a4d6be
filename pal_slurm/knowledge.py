"""What is known, joined for pald and palctl. In: store, config, cluster. Out: Apps, ScoreTable, as pald uses them.

The store imports the model only and the scores room is pure, so the two meet here: the binning is handed to the store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pal_slurm.config import Config
from pal_slurm.model import App, Apps, Cluster, ScoreTable
from pal_slurm.scores import alike
from pal_slurm.store import AppRepo, ScoreRepo, Store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.retention import Keep

DAY_S = 86_400.0


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
    return ScoreRepo(store).table(cluster, classes or config.classes.names, now, stale_after_s, alike)


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
