"""pald's ear. In: the spool of pal.yaml, once a minute. Out: scores in the store that jobs and nights have changed.

It works in a thread beside the cycle, because a night of a large fleet takes longer than a cycle may. The next cycle
sees new scores by the revision of the store.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import PalError
from pal_slurm.intake.directory import SpoolBusy
from pal_slurm.intake.spool import FileFate
from pal_slurm.learning.from_jobs import TierOf
from pal_slurm.learning.run import Ingested, ingest
from pal_slurm.model import Cluster, Tier
from pal_slurm.store import Store
from pal_slurm.words import plain

log = logging.getLogger("pald")
LONG_S = 900.0  # more than one pass takes


@dataclass
class Learner:
    store: Store
    cluster: str
    faults: Faults = field(default_factory=Faults)
    looked_at: float | None = None
    beside: Beside = field(init=False)
    note: str = ""  # for `palctl status`; empty: what waited was taken in the last time
    _well_at: float | None = None

    def __post_init__(self) -> None:
        self.beside = Beside("learning", self.faults)

    def begin_when_due(self, config: Config, cluster: Cluster, now: float) -> bool:
        """Begin to take in what waits, when it is time and the last time is over."""
        settings = config.learning
        if not settings.enabled or not config.profile.spool:
            self.note = ""
            return False
        if self.beside.busy:
            if self.looked_at is not None and now - self.looked_at > LONG_S:
                self.note = f"nothing is learned from the spool: the pass of {_clock(self.looked_at)} has not ended"
            return False
        if self.looked_at is not None and 0.0 <= now - self.looked_at < settings.interval_s:
            return False
        self.looked_at = now
        tier_of = _tiers(cluster)
        return self.beside.begin(lambda: self._take_in(config, tier_of, now))

    def _take_in(self, config: Config, tier_of: TierOf, now: float) -> None:
        begun, self._well_at = time.monotonic(), now if self._well_at is None else self._well_at
        try:
            _tell(ingest(self.store, config, Path(config.profile.spool), now, self.cluster, tier_of=tier_of))
        except SpoolBusy as error:  # palctl ingest, or a profile run, does it right now
            if now - self._well_at > LONG_S:
                self._failed(error)
        except PalError as error:
            self._failed(error)
            raise
        else:
            self.note, self._well_at = "", now + (time.monotonic() - begun)

    def _failed(self, error: PalError) -> None:
        assert self._well_at is not None
        self.note = f"nothing is learned from the spool since {_clock(self._well_at)}: {plain(str(error))}"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _tell(done: Ingested) -> None:
    for told in done.files:
        if told.fate in (FileFate.SET_ASIDE, FileFate.LEFT) or told.left_out:
            log.warning("learning: %s: %s: %s", ascii(told.name), told.fate, told.said)
    for alert in done.alerts:
        log.warning("learning: %s", alert.said)
    if done.rescored.scores or done.learned.scores:
        log.info("learning: %d scores from nights, %d from jobs", done.rescored.scores, done.learned.scores)


def _tiers(cluster: Cluster) -> TierOf:
    """How far apart a job's GPUs are, by the cluster as it is."""

    def tier_of(nodes: tuple[str, ...], gpus: int) -> Tier:
        rows = tuple(cluster.node_index[node] for node in nodes if node in cluster.node_index)
        return cluster.tier_of(rows, gpus) if len(rows) == len(nodes) else Tier.CLUSTER

    return tier_of
