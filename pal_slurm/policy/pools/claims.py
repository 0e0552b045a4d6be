"""How fast an application is on each GPU model, over its fastest. In: an app. Out: its speeds."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import App, base_of


def relative_rates(app: App, models: Sequence[str]) -> tuple[float, ...]:
    """How fast it is on each model's median GPU, over the fastest; by the equation's base.

    Who has bases for some models only can't run on the others. Where nothing is known all models count alike.
    """
    told = [app.base.get(model) for model in models]
    if not any(told):
        return tuple(min(base_of(app, m) for m in models) / base_of(app, model) for model in models)
    best = min(base for base in told if base)
    return tuple(best / base if base else 0.0 for base in told)
