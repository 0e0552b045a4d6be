"""One user's jobs: what runs, what waits and why, what ran. For that user, and for who sees everything."""

from __future__ import annotations

from pal_slurm.page.asked import NotThere, NotYours, Visit
from pal_slurm.page.rows import past_row, running_row, waiting_row
from pal_slurm.page.views import PageView, Views
from pal_slurm.report.gain import gained, gained_share
from pal_slurm.store import OutcomeRepo

MOST = 100


def user(asked: Visit) -> PageView:
    name = asked.word("user", 64)
    if not asked.viewer.sees(name):
        raise NotYours("whose jobs are whose is shown to their user, once logged in, and to admins")
    sight = asked.sight
    running = [job for job in sight.present.running if job.user == name]
    waiting = [(place, job) for place, job in sight.waiting.values() if job.user == name]
    with asked.watcher.reading() as (store, cluster):
        past = OutcomeRepo(store, cluster).newest_of(name, MOST)
    if not (running or waiting or past):
        raise NotThere(f"no job of a user {name!r} is known")
    return PageView(
        "user.html",
        {
            "user": name,
            "running": [running_row(job, sight, asked.viewer) for job in running[:MOST]],
            "more_running": max(0, len(running) - MOST),
            "waiting": [waiting_row(place, job, asked.sight, asked.viewer) for place, job in waiting[:MOST]],
            "more_waiting": max(0, len(waiting) - MOST),
            "gpus": sum(job.n_gpus for job in running),
            "past": [past_row(outcome) for outcome in past],
            "share": gained_share(gained((), past, sight.now)),
        },
    )


ROUTES: Views = {"/user/{user:path}": user}
