"""The queue in the order in which it is considered, and who runs; with each job's reason, in words."""

from __future__ import annotations

from pal_slurm.page.asked import Visit, paged
from pal_slurm.page.rows import running_row, waiting_row
from pal_slurm.page.views import PageView, Views

EACH = 150  # rows on one page: reasons are sentences


def queue(asked: Visit) -> PageView:
    every = asked.sight.present.waiting
    pages = paged(asked, len(every), EACH)
    some = every[pages.first_row : pages.first_row + EACH]
    rows = [waiting_row(place, job, asked.sight, asked.viewer) for place, job in enumerate(some, pages.first_row + 1)]
    return PageView("queue.html", {"rows": rows, "pages": pages})


def running(asked: Visit) -> PageView:
    """Newest start first."""
    every = sorted(asked.sight.present.running, key=lambda job: (-job.start, -job.job))
    pages = paged(asked, len(every), EACH)
    some = every[pages.first_row : pages.first_row + EACH]
    return PageView(
        "running.html", {"rows": [running_row(job, asked.sight, asked.viewer) for job in some], "pages": pages}
    )


ROUTES: Views = {"/queue": queue, "/running": running}
