"""Runs to PM-scores to bins. Pure: imports the model, numpy and the standard library only."""

from pal_slurm.scores.bins import bin_scores

__all__ = ["bin_scores"]
