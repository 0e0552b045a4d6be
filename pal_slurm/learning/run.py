"""One pass of taking in: files, scores, features of applications. In: config, store. Out: what was done, in figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.intake.documents import KernelClasses
from pal_slurm.intake.spool import FileFate, Spool, TakenFile
from pal_slurm.learning.classes import Featured, learn_classes
from pal_slurm.learning.from_jobs import Learned, TierOf, learn, tier_by_count
from pal_slurm.learning.from_nights import Rescored, rescore
from pal_slurm.learning.knowledge import DAY_S, known_apps
from pal_slurm.store import AppRepo, PairRepo, Store
from pal_slurm.store.clusters import known_clusters
from pal_slurm.store.learned import LearnedRepo
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import SampleRepo
from pal_slurm.store.votes import VoteRepo


@dataclass
class Ingested:
    """What one pass did."""

    files: list[TakenFile] = field(default_factory=list)
    rescored: Rescored = Rescored(0, 0, ())
    featured: Featured = Featured(0, 0)
    learned: Learned = field(default_factory=Learned)

    def count(self, fate: FileFate) -> int:
        return sum(told.fate is fate for told in self.files)

    @property
    def alerts(self) -> list[Alert]:
        return [*self.rescored.alerts, *self.learned.alerts]

    @property
    def runs(self) -> int:
        return sum(told.runs for told in self.files if told.fate is FileFate.TAKEN)

    @property
    def left_out(self) -> int:
        """Step reports that can't be."""
        return sum(told.left_out for told in self.files if told.fate is FileFate.TAKEN)

    @property
    def samples(self) -> int:
        return sum(told.samples for told in self.files if told.fate is FileFate.TAKEN)


def ingest(
    store: Store,
    config: Config,
    directory: Path,
    now: float,
    cluster: str = "",
    tell: Callable[[TakenFile], None] = lambda _: None,
    tier_of: TierOf = tier_by_count,
) -> Ingested:
    """Take in what is whole; make scores of it, also of what an earlier pass took in and did not get to."""
    done = Ingested()
    if not cluster and len(known := known_clusters(store)) == 1:
        cluster = known[0]
    for told in Spool(directory, store, kernel_classes(store, config), Path(config.state_dir), cluster).take(now):
        done.files.append(told)
        tell(told)
    done.rescored = rescore(store, now)
    if done.samples:
        done.featured = learn_classes(store, config, now)
    done.learned = learn(store, known_apps(store, config), now, tier_of)
    return done


def recompute(store: Store, config: Config, now: float) -> tuple[Rescored, Learned]:
    """Nights and scores anew from the raw runs, and then what jobs showed since the newest night."""
    LearnedRepo(store).forget_offsets()
    VoteRepo(store).forget()
    PairRepo(store).forget()
    rescored = rescore(store, now, anew=True)
    SampleRepo(store).hear_again(NightRepo(store).newest() * DAY_S)
    learned = Learned()
    while (more := learn(store, known_apps(store, config), now)).samples:
        learned.samples += more.samples
        learned.scores += more.scores
        learned.alerts += more.alerts
    return rescored, learned


def kernel_classes(store: Store, config: Config) -> KernelClasses:
    return KernelClasses(
        names=config.classes.names,
        told={name: app.cls for name, app in config.known_apps().known.items()},
        usual=config.profile.kernels,
        stored={name: entry.app.cls for name, entry in AppRepo(store).all().items()},
    )
