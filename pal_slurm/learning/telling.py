"""What is known of applications, as rows. In: the store, pal.yaml. Out: fields, for palctl, users and pages."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from pal_slurm.config import Config
from pal_slurm.learning.distance import apart
from pal_slurm.learning.from_jobs import shapes_told
from pal_slurm.learning.knowledge import SeenApp, known_apps, seen_apps
from pal_slurm.learning.pairs import PairsOfOne
from pal_slurm.learning.rates import NOTHING
from pal_slurm.learning.spans import with_spans
from pal_slurm.model import App, Apps, Tier
from pal_slurm.report.text import Value
from pal_slurm.store import Store
from pal_slurm.store.votes import VoteRepo


def app_rows(store: Store, config: Config) -> list[dict[str, Value]]:
    """Every application that was described or seen, by name."""
    apps = with_spans(known_apps(store, config), VoteRepo(store).every_app())
    return [app_row(seen, apps.get(seen.app.name)) for seen in seen_apps(store, config)]


def rate_rows(apps: Apps, models: Sequence[str], user: str = "") -> list[dict[str, Value]]:
    """How fast every application is on each model, as it counts for a user's jobs; none where there is one model."""
    named = [(name, apps.get(name, user)) for name in sorted(apps.known)]
    rows: list[dict[str, Value]] = []
    for name, app in [*named, (apps.default.name, apps.default)] if len(models) > 1 else ():
        best = min(app.base.values(), default=1.0)
        for model in models:
            trust = app.trust(model) if app.base else NOTHING
            seconds = app.base[model] if app.base else None
            rows.append({
                "app": name, "class": app.cls, "model": model, "rate": round(best / seconds, 4) if seconds else 1.0,
                "doubt": trust.doubt, "source": trust.source, "seconds": seconds and round(seconds, 6),
            })  # fmt: skip
    return rows


def pair_rows(known: PairsOfOne) -> list[dict[str, Value]]:
    """What two on one GPU cost each other, as it counts for a user's jobs."""
    return [
        {
            "app": pair.one.app, "beside": pair.other.app, "gpus": pair.one.gpus, "model": pair.model,
            "factor": round(trust.factor, 4) if isfinite(trust.factor) else None, "doubt": round(trust.doubt, 4),
            "source": trust.source,
        }
        for pair, trust in sorted(known.known.items())
    ]  # fmt: skip


def app_row(seen: SeenApp, counts: App) -> dict[str, Value]:
    """`counts`: the application as plans know it."""
    app, f = seen.app, seen.features
    told = "jobs" if counts.comm != app.comm else seen.source if len(set(app.comm)) > 1 else "none"
    seen_apart = apart(f.base)
    comm = {tier.name.lower(): factor for tier, factor in zip(Tier, counts.comm, strict=True)}
    comm["unlinked"] = max(counts.unlinked, comm["node"])
    return {
        "app": app.name, "class": app.cls, "source": seen.source, "jobs": f.jobs, "sure": f.sure, "compute": f.compute,
        "memory": f.memory, "noise": f.noise, "base": dict(app.base), "comm": comm,
        "measured_base": dict(shapes_told(f.base)), "comm_source": told,
        **{tier: comm[tier] for tier in ("node", "unlinked", "rack", "cluster")},
        "apart": seen_apart and round(seen_apart.factor, 3), "apart_doubt": seen_apart and round(seen_apart.doubt, 3),
        "apart_jobs": seen_apart and seen_apart.jobs,
    }  # fmt: skip
