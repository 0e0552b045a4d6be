"""Runs to PM-scores to bins. Pure: imports the model, numpy and the standard library only."""

from pal_slurm.scores.alike import alike
from pal_slurm.scores.bins import bin_scores
from pal_slurm.scores.medians import GpuScore, RunTime, believable, score_runs
from pal_slurm.scores.table import binned

__all__ = ["GpuScore", "RunTime", "alike", "believable", "bin_scores", "binned", "score_runs"]
