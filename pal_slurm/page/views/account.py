"""What was gained, what was written to Slurm, and how pald and this page are."""

from __future__ import annotations

from pal_slurm.page.asked import NotYours, Visit
from pal_slurm.page.rows import edits_shown
from pal_slurm.page.views import PageView, Views
from pal_slurm.store import Ledger, Said

EACH = 100


def gained(asked: Visit) -> PageView:
    return PageView("gained.html", {"gains": asked.sight.gains})


def ledger(asked: Visit) -> PageView:
    """Older ones by the id of the oldest that is shown: a list that grows at its head has no page numbers."""
    if not asked.viewer.everything and "jobs" in asked.sight.present.private:
        raise NotYours("Slurm keeps others' jobs private here (PrivateData), and every edit names one")
    before = asked.number("before", 0, 10**9 - 1) or None
    with asked.watcher.reading() as (store, cluster):
        found = Ledger(store, cluster).newest(EACH + 1, before)
    rows = edits_shown(asked, found[:EACH])
    return PageView("ledger.html", {"rows": rows, "older": rows[-1].id if len(found) > EACH else None})


def health(asked: Visit) -> PageView:
    sight = asked.sight
    notes = list(sight.present.notes)
    if not sight.troubles:
        with asked.watcher.reading() as (store, cluster):
            notes += [note for note in Said(store, cluster).notes() if note not in notes]
    return PageView("health.html", {"notes": notes if asked.viewer.everything else [], "hidden": len(notes)})


ROUTES: Views = {"/gained": gained, "/ledger": ledger, "/health": health}
