"""What Gavel's published loops have in common: rounds, and when shares are made anew. In: the clock. Out: calls.

A round is 360 s; GPUs of a job that ends in it are idle until the next. Shares are made anew when somebody came or went
and the last are over 1920 s old.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.sim.artifact.workers import Workers
from pal_slurm.sim.engine import NEVER, Stage

ROUND_S = 360.0  # unless told otherwise
SHARES_LAST_S = 1920.0
ORDER = ("v100", "p100", "k80")  # other models follow as they are told
SLACK_S = 1e-6


class GavelPace(NamedTuple):
    round_s: float = ROUND_S
    shares_last_s: float = SHARES_LAST_S  # 0: made anew at each change


AS_PUBLISHED = GavelPace()


class GavelRounds(ABC):
    restless = False

    def __init__(self, name: str, cluster: Cluster, pace: GavelPace) -> None:
        self.name, self.wake_at, self._round_s = name, NEVER, pace.round_s
        self._shares_last_s = pace.shares_last_s
        self._types = sorted(range(len(cluster.models)), key=lambda t: _place(cluster.models[t]))
        self._workers = [Workers(cluster, t) for t in range(len(cluster.models))]
        self._gpus = np.array([float(workers.count) for workers in self._workers])
        self._changed, self._shared_at, self._round_end = False, 0.0, 0.0

    def learn(self, known: ScoreTable) -> None:  # noqa: B027  # none of them needs another
        """The artifact knows nothing of single GPUs."""

    def act(self, stage: Stage) -> None:
        now = stage.now
        if now < self._round_end - SLACK_S:
            return
        self._account(now)
        if self._changed and (now - self._shared_at >= self._shares_last_s or self._shared_at == 0):
            self._share(now)
        running = self._begin_round(stage)
        self._round_end = now + self._round_s if running else now
        self.wake_at = self._round_end if running else NEVER

    @abstractmethod
    def _account(self, now: float) -> None:
        """What each had of each type in the round that ends."""

    @abstractmethod
    def _share(self, now: float) -> None:
        """Shares anew."""

    @abstractmethod
    def _begin_round(self, stage: Stage) -> bool:
        """Whether anybody runs in it."""


def _place(model: str) -> int:
    return ORDER.index(model) if model in ORDER else len(ORDER)
