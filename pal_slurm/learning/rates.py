"""How fast applications are on each GPU model. In: what was told. Out: applications with a speed for every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, fsum, log

from pal_slurm.model import App, Apps


def complete(apps: Apps, models: Sequence[str]) -> Apps:
    """Where there are several models: one that nobody told of counts as the mean of those that were."""
    if len(models) < 2:
        return apps
    return Apps({name: _whole(app, models) for name, app in apps.known.items()}, apps.default)


def _whole(app: App, models: Sequence[str]) -> App:
    told = [app.base[model] for model in models if model in app.base]
    if not told or len(told) == len(models):
        return app
    mean = exp(fsum(map(log, told)) / len(told))
    return replace(app, base={model: app.base.get(model, mean) for model in models})
