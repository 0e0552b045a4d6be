"""The picture of a comparison. In: outcomes of the first seed. Out: a PNG: JCT distribution, queue, GPUs in use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pal_slurm.errors import ConfigError
from pal_slurm.sim.outcome import TraceOutcome

POINTS = 4000  # per line; more than a picture is wide


def plot(outcomes: Sequence[TraceOutcome], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise ConfigError("--plot needs matplotlib: pip install 'pal-slurm[report]'.") from exc
    figure = Figure(figsize=(9, 10), layout="constrained")
    jct, queue, busy = figure.subplots(3, 1)
    for outcome in outcomes:
        hours = np.sort(outcome.jct_s) / 3600
        jct.plot(hours, np.arange(1, hours.size + 1) / hours.size, label=outcome.policy)
        keep = np.unique(np.linspace(0, len(outcome.timeline.time) - 1, POINTS).astype(np.intp))
        at = np.array(outcome.timeline.time)[keep] / 3600
        queue.step(at, np.array(outcome.timeline.queued)[keep], where="post", label=outcome.policy)
        busy.step(at, np.array(outcome.timeline.busy)[keep], where="post", label=outcome.policy)
    jct.set(xlabel="job completion time, hours", ylabel="share of jobs", ylim=(0, 1))
    queue.set(xlabel="time, hours", ylabel="jobs waiting", ylim=(0, None))
    busy.set(xlabel="time, hours", ylabel="GPUs in use", ylim=(0, None))
    jct.legend()
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png")
