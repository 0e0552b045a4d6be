"""`none`: what runs, runs where it is to its end."""

from __future__ import annotations

from pal_slurm.policy.seams import movings

movings.register("none", lambda _: None)
