"""One pass of taking in: files, scores, features of applications. In: config, store. Out: what was done, in figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.ingest.documents import Classes
from pal_slurm.ingest.rescore import Rescored, rescore
from pal_slurm.ingest.spool import Fate, Spool, Told
from pal_slurm.store import AppRepo, Store


@dataclass
class Ingested:
    """What one pass did."""

    files: list[Told] = field(default_factory=list)
    rescored: Rescored = Rescored(0, 0, ())

    def count(self, fate: Fate) -> int:
        return sum(told.fate is fate for told in self.files)

    @property
    def runs(self) -> int:
        return sum(told.runs for told in self.files if told.fate is Fate.TAKEN)

    @property
    def samples(self) -> int:
        return sum(told.samples for told in self.files if told.fate is Fate.TAKEN)


def ingest(
    store: Store,
    config: Config,
    directory: Path,
    now: float,
    cluster: str = "",
    tell: Callable[[Told], None] = lambda _: None,
) -> Ingested:
    """Take in what is whole; make scores of it, also of what an earlier pass took in and did not get to."""
    done = Ingested()
    for told in Spool(directory, store, kernel_classes(store, config), cluster).take(now):
        done.files.append(told)
        tell(told)
    done.rescored = rescore(store, now)
    return done


def kernel_classes(store: Store, config: Config) -> Classes:
    return Classes(
        names=config.classes.names,
        told={name: app.cls for name, app in config.known_apps().known.items()},
        usual=config.profile.kernels,
        stored={name: entry.app.cls for name, entry in AppRepo(store).all().items()},
    )
