"""One GPU: who holds it, how fast it is and was, which jobs ran on it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from pal_slurm.page.asked import NotThere, NotYours, Visit, Wrong
from pal_slurm.page.rows import running_row
from pal_slurm.page.views import PageView, Views
from pal_slurm.report import card as told
from pal_slurm.report.drawing import Chart, history
from pal_slurm.report.figures import OwnScore
from pal_slurm.report.history import day
from pal_slurm.store.cards import CardNight, CardRepo

_PLACE = re.compile(r"(.{1,255}):g?([0-9]{1,3})", re.DOTALL)
JOBS_S = 30 * 86_400.0
JOBS = 20
ALERTS = 20


def gpu(asked: Visit) -> PageView:
    text, sight, now = asked.word("card"), asked.sight, time.time()
    if not asked.viewer.everything and "nodes" in sight.present.private:
        raise NotYours("Slurm keeps nodes private here (PrivateData)")
    place = _PLACE.fullmatch(text)
    spot = (place[1], int(place[2])) if place else None
    with asked.watcher.reading() as (store, _):
        repo = CardRepo(store)
        seated = [stay for stay in repo.in_slot(*spot) if stay.until is None] if spot else []
        identity = repo.identity(seated[-1].uuid if seated else text)
        life = told.card_of(store, identity, now - JOBS_S) if identity else None
    if life is not None and life.place is not None:
        spot = (life.place.node, life.place.slot)
    if life is None and (spot is None or spot[0] not in sight.by_node):
        if not text:
            raise Wrong("name a GPU's UUID, or NODE:SLOT")
        raise NotThere(f"no GPU is known as {text[:120]!r}")
    holder = sight.holders.get(spot) if spot else None
    node = sight.by_node.get(spot[0]) if spot else None
    others = asked.viewer.everything or "jobs" not in sight.present.private
    return PageView(
        "gpu.html",
        {
            "title": f"{spot[0]}:g{spot[1]}" if spot else text,
            "sentences": list(told.sentences(life, {}, now)) if life else [],
            "holder": running_row(holder, sight, asked.viewer) if holder else None,
            "away": node is not None and not node.ok,
            "free": node is not None and spot is not None and bool(node.free >> spot[1] & 1),
            "lines": _lines(life.nights) if life else [],
            "places": told.place_rows(life) if life else [],
            "alerts": told.alert_rows(life)[:ALERTS] if life else [],
            "jobs": told.job_rows(life)[:JOBS] if life and others else [],
            "more": max(0, len(life.jobs) - JOBS) if life and others else 0,
        },
    )


def _lines(nights: Sequence[CardNight]) -> list[tuple[str, Chart]]:
    """A picture per class that has more than one night: the card's own score, the mean over its kernels."""
    found: dict[str, dict[int, list[float]]] = {}
    for night in nights:
        if night.score is not None:
            found.setdefault(night.cls, {}).setdefault(night.night, []).append(night.score)
    lines = []
    for cls, by_night in sorted(found.items()):
        chart = history([OwnScore(day(night), sum(own) / len(own)) for night, own in sorted(by_night.items())])
        if chart is not None:
            lines.append((cls, chart))
    return lines


ROUTES: Views = {"/gpu/{card:path}": gpu}
