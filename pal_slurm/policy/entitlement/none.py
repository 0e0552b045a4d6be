"""`none`: nobody is owed more than his turn."""

from __future__ import annotations

from pal_slurm.policy.seams import entitlements

entitlements.register("none", lambda _: None)
