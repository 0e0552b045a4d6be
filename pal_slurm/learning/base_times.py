"""An application's usual pace, user by user. In: what jobs of a user took. Out: a baseline for the next one, its noise.

A name belongs to everybody who writes it, so nobody's jobs are held against what one other user showed: a user's own
jobs come first, then pal.yaml, then what several others agree on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import log, sqrt
from statistics import median

from pal_slurm.model import App, Tier, base_of, comm_of, step_time
from pal_slurm.store.learned import AppFeatures, Baseline
from pal_slurm.store.votes import UserApp

APP_NOISE = 0.05  # between jobs of one application, until they have shown it
APP_WEIGHT = 4  # jobs that this assumption counts as
TOLD_BASE = 0.15  # pal.yaml's base: what a user's own settings change
UNKNOWN_BASE = 2.0
WITNESSES = 2  # other users whose word on an application's pace is heard


def usual(app: App, shape: str, tier: Tier, mine: UserApp, others: Iterable[UserApp]) -> Baseline:
    """What a job of that user is held against: log seconds on median GPUs."""
    if (own := mine.base.get(shape)) is not None:
        return own
    model = shape.split("|")[0]
    if model in app.base:
        told = step_time(base_of(app, model), 1.0, float(comm_of(app, tier)))
        return Baseline(log(told), TOLD_BASE**2, 0)
    said = [other.base[shape] for other in others if shape in other.base]
    return _agreed(said) if len(said) >= WITNESSES else Baseline(0.0, UNKNOWN_BASE**2, 0)


def _agreed(said: Sequence[Baseline]) -> Baseline:
    """Their median, as sure as they agree."""
    middle = median(base.mean for base in said)
    apart = sorted(abs(base.mean - middle) for base in said)
    off = 2 * apart[len(apart) // 2]
    return Baseline(middle, min(median(base.var for base in said) + off**2 + APP_NOISE**2, UNKNOWN_BASE**2), 0)


def learned(mine: UserApp, shape: str, base: Baseline, residual: float, var: float, now: float) -> UserApp:
    """After one more job: `residual` is its pace (log) less what its GPUs explain, `var` how sure that is."""
    noise = mine.noise or APP_NOISE
    gain = base.var / (base.var + var)
    mean = base.mean + gain * (residual - base.mean)
    shapes = {**mine.base, shape: Baseline(mean, base.var * (1 - gain), base.jobs + 1)}
    if base.jobs >= 1:
        count = APP_WEIGHT + sum(b.jobs for b in shapes.values())
        surplus = max((residual - base.mean) ** 2 - base.var - (var - noise**2), 0.0)
        noise = sqrt(max(noise**2 + (min(surplus, (4 * noise) ** 2) - noise**2) / count, 1e-5))
    return replace(mine, base=shapes, noise=noise if mine.noise or base.jobs >= 1 else None, seen_at=now)


def together(before: AppFeatures, users: Mapping[str, UserApp], now: float) -> AppFeatures:
    """For people: one vote per user."""
    shapes = sorted({shape for user in users.values() for shape in user.base})
    base = {shape: _shown([user.base[shape] for user in users.values() if shape in user.base]) for shape in shapes}
    noises = [user.noise for user in users.values() if user.noise is not None]
    return replace(before, base=base, noise=median(noises) if noises else before.noise, seen_at=now)


def _shown(said: Sequence[Baseline]) -> Baseline:
    return Baseline(
        median(base.mean for base in said), median(base.var for base in said), sum(base.jobs for base in said)
    )
