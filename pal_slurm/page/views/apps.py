"""Applications: class, rates on each model, what distance costs. Names that users gave are theirs to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pal_slurm.learning.from_jobs import shapes_told
from pal_slurm.learning.knowledge import SeenApp, seen_apps
from pal_slurm.model import Tier
from pal_slurm.page.asked import NotThere, Visit, paged
from pal_slurm.page.rows import past_row, running_row
from pal_slurm.page.views import PageView, Views
from pal_slurm.report.present import RunningNow, WaitingNow
from pal_slurm.store import OutcomeRepo

EACH = 200
PAST = 20
MINE = 1_000  # of a user's own last jobs, whose applications he may see


@dataclass(frozen=True, slots=True)
class AppRow:
    name: str
    cls: str
    source: str
    jobs: int
    sure: float | None
    compute: float | None
    memory: float | None
    running: int
    waiting: int


def _seen(asked: Visit) -> list[SeenApp]:
    """Those that the site described, and of the others those that are his."""
    viewer, present = asked.viewer, asked.sight.present
    with asked.watcher.reading() as (store, cluster):
        found = seen_apps(store, asked.watcher.config)
        if viewer.everything:
            return found
        jobs: Iterable[RunningNow | WaitingNow] = (*present.running, *present.waiting)
        mine = {job.app for job in jobs if viewer.sees(job.user)}
        if viewer.name:
            mine |= {got.app or "" for got in OutcomeRepo(store, cluster).newest_of(viewer.name, MINE)}
    return [seen for seen in found if seen.source in ("pal.yaml", "admin") or seen.app.name in mine]


def apps(asked: Visit) -> PageView:
    found = sorted(_seen(asked), key=lambda seen: (-seen.features.jobs, seen.app.name))
    pages, present = paged(asked, len(found), EACH), asked.sight.present
    running, waiting = (_counted(jobs, asked) for jobs in (present.running, present.waiting))
    rows = [
        AppRow(
            s.app.name, s.app.cls, s.source, s.features.jobs, s.features.sure, s.features.compute, s.features.memory,
            running.get(s.app.name, 0), waiting.get(s.app.name, 0),
        )
        for s in found[pages.first_row : pages.first_row + EACH]
    ]  # fmt: skip
    return PageView("apps.html", {"rows": rows, "pages": pages})


def _counted(jobs: Iterable[RunningNow | WaitingNow], asked: Visit) -> dict[str, int]:
    """Of his own jobs; of all, for who sees everything."""
    counts: dict[str, int] = {}
    for job in jobs:
        if asked.viewer.sees(job.user):
            counts[job.app] = counts.get(job.app, 0) + 1
    return counts


def app(asked: Visit) -> PageView:
    name = asked.word("app", 64)
    seen = next((s for s in _seen(asked) if s.app.name == name), None)
    if seen is None:
        raise NotThere(f"no application {name!r} is known, or it is not yours to see")
    viewer, present = asked.viewer, asked.sight.present
    past = []
    if viewer.name or viewer.everything:
        with asked.watcher.reading() as (store, cluster):
            repo = OutcomeRepo(store, cluster)
            past = repo.newest(PAST, app=name) if viewer.everything else repo.newest_of(viewer.name, PAST, app=name)
    mine = [job for job in present.running if job.app == name and viewer.sees(job.user)]
    return PageView(
        "app.html",
        {
            "seen": seen,
            "comm": [(tier.name.lower(), cost) for tier, cost in zip(Tier, seen.app.comm, strict=True)],
            "unlinked": max(seen.app.unlinked, seen.app.comm[Tier.NODE]),
            "base": sorted(seen.app.base.items()),
            "shapes": sorted(shapes_told(seen.features.base).items()),
            "running": [running_row(job, asked.sight, viewer) for job in mine[:PAST]],
            "waits": sum(job.app == name and viewer.sees(job.user) for job in present.waiting),
            "past": [past_row(outcome) for outcome in past],
        },
    )


ROUTES: Views = {"/apps": apps, "/app/{app:path}": app}
