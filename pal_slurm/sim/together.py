"""Who has the same GPUs as another. In: who joins and leaves. Out: what that costs each; GPUs that are held, each once.

Within one moment of a scheduler's changes a newcomer may be there before those who leave: that lasts for no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import Cluster, Gpus, JobKind, Sharing
from pal_slurm.sim.running import Run

STILL = 1e9  # a factor from here on is as good as standing still


class SharedGpus:
    def __init__(self, cluster: Cluster, sharing: Sharing) -> None:
        self._models = cluster.models
        self._model: list[int] = cluster.gpu_model.reshape(-1).tolist()
        self._sharing = sharing
        self._here: dict[Gpus, list[Run]] = {}
        self.gpus = self.shared = 0  # that are held, and that two hold

    def joins(self, run: Run) -> Sequence[Run]:
        """Who was there before: it goes on at another speed."""
        here = self._here.get(run.gpus)
        if here is None:
            self._here[run.gpus] = [run]
            self.gpus += len(run.gpus)
            return ()
        here.append(run)
        if len(here) == 2:
            self.shared += len(run.gpus)
        return here[:-1]

    def leaves(self, run: Run) -> Sequence[Run]:
        """Who stays: it goes on at another speed."""
        here = self._here[run.gpus]
        here.remove(run)
        if len(here) == 1:
            self.shared -= len(run.gpus)
        if not here:
            del self._here[run.gpus]
            self.gpus -= len(run.gpus)
        return here

    def factor(self, run: Run) -> float:
        """The equation's last term."""
        here = self._here[run.gpus]
        if len(here) == 1:
            return 1.0
        if len(here) > 2:
            return STILL
        other = here[0] if here[1] is run else here[1]
        one, beside = (JobKind(each.work.app.name, each.work.gpus) for each in (run, other))
        models = {self._models[self._model[gpu]] for gpu in run.gpus}
        return min(max(self._sharing.factor(one, beside, model) for model in models), STILL)
