"""What is known of an application, as a row. In: a SeenApp. Out: its fields, for palctl, users and pages."""

from __future__ import annotations

from pal_slurm.learning.from_jobs import shapes_told
from pal_slurm.learning.knowledge import SeenApp
from pal_slurm.model import Tier
from pal_slurm.report.text import Value


def app_row(seen: SeenApp) -> dict[str, Value]:
    app, f = seen.app, seen.features
    comm = {tier.name.lower(): factor for tier, factor in zip(Tier, app.comm, strict=True)}
    return {
        "app": app.name, "class": app.cls, "source": seen.source, "jobs": f.jobs, "sure": f.sure, "compute": f.compute,
        "memory": f.memory, "noise": f.noise, "base": dict(app.base), "comm": comm,
        "measured_base": dict(shapes_told(f.base)),
    }  # fmt: skip
