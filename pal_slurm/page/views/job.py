"""One job: where it stands, why, what was weighed, what was done. Its user sees that; others that it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from pal_slurm.errors import StoreError
from pal_slurm.page.asked import NotThere, Visit, Wrong, job_id
from pal_slurm.page.grid import place_of
from pal_slurm.page.rows import edit_row, past_row, running_row, waiting_row
from pal_slurm.page.views import PageView, Views
from pal_slurm.report.life import Life, life_of, of_himself, owner
from pal_slurm.report.present import RunningNow
from pal_slurm.report.why import sentences, where
from pal_slurm.store import Weighed
from pal_slurm.store.cards import CardRepo
from pal_slurm.words import digits

EDITS = 30
MOST_TOLD = 200  # edits, and starts, of an array that are read
STORIES = 5  # array tasks whose last decision is told


@dataclass(frozen=True, slots=True)
class WeighedBar:
    """A placement that was weighed, as a line of a table and a bar."""

    what: str
    where: str
    span: str
    base: float
    worst: float
    comm: float
    step: float
    width: float  # of 100: the slowest of them


def job(asked: Visit) -> PageView:
    number, task = job_id(asked.word("job", 24))
    sight = asked.sight
    place, waits = sight.waiting.get(number, (0, None))
    runs = [one for one in sight.running.get(number, []) if task in (None, one.task)]
    life, trouble = _life(asked, number, task)
    sees = asked.viewer.sees(_user(life, runs, waits.user if waits else ""))
    private = () if asked.viewer.everything else sight.present.private
    hidden = "jobs" in private and not sees  # told in no other words than that there is none
    if not (waits or runs) and (life is None or life.empty or hidden):
        if life is None:
            raise StoreError(trouble)
        raise NotThere(f"nothing is known of job {number}: pald has not seen it, or it was long ago")
    told = of_himself(life, private) if life and sees else None
    return PageView(
        "job.html",
        {
            "name": f"{number}" if task is None else f"{number}_{task}",
            "sees": sees,
            "places": "jobs" not in private,
            "trouble": trouble,
            "forecast_at": sight.present.forecast_at if sees and number in sight.present.forecasts else None,
            "waits": waiting_row(place, waits, sight, asked.viewer) if waits else None,
            "runs": [running_row(one, sight, asked.viewer) for one in runs[:STORIES]],
            "gpus": [spot for one in runs[:STORIES] if asked.viewer.sees(one.user) for spot in _gpus(asked, one)],
            "stories": [(list(sentences(why)), bars(why.weighed)) for why in told.decided[:STORIES]] if told else [],
            "more": max(0, len(told.decided) - STORIES) if told else 0,
            "edits": [edit_row(edit, True) for edit in reversed(told.edits[-EDITS:])] if told else [],
            "refused": told.refused if told else (),
            "past": [past_row(outcome) for outcome in told.got] if told else [],
        },
    )


def _life(asked: Visit, number: int, task: int | None) -> tuple[Life | None, str]:
    """While the database is away, what pald sees is shown all the same."""
    try:
        with asked.watcher.reading() as (store, cluster):
            return life_of(store, cluster, number, task, MOST_TOLD), ""
    except StoreError as error:
        return None, str(error)


def _user(life: Life | None, runs: Sequence[RunningNow], waiting: str) -> str:
    """Whose story it is: a job id may come round again, and another's story is not told with it."""
    told = owner(life) if life is not None else ""
    return told or (runs[0].user if runs else waiting)


def bars(weighed: Sequence[Weighed]) -> list[WeighedBar]:
    most = max((w.step_time for w in weighed), default=1.0)
    return [
        WeighedBar(
            w.what, where(w.placement), w.tier, w.base, w.worst_score, w.comm, w.step_time,
            round(100 * w.step_time / most, 1),
        )
        for w in weighed
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spot:
    place: str
    href: str
    score: float | None


def _gpus(asked: Visit, one: RunningNow) -> list[Spot]:
    found = []
    for node, slots in zip(one.nodes, one.gpus, strict=False):
        for slot in slots:
            gpu = asked.sight.scores.gpus.get((node, slot))
            mark = gpu.marks.get(one.cls) if gpu else None
            found.append(Spot(f"{node}:g{slot}", place_of(node, slot), mark.score if mark else None))
    return found


def find(asked: Visit) -> PageView:
    """What somebody typed: a job, a slot, a card, a user."""
    text = asked.word("q", 200)
    if not text:
        raise Wrong("write a job's number, NODE:SLOT, a GPU's UUID or a user's name")
    head, _, tail = text.partition("_")
    if digits(head) and (not tail or digits(tail)):
        return PageView(instead=f"job/{quote(text, safe='')}")
    node, colon, slot = text.rpartition(":")
    if colon and digits(slot.removeprefix("g")) and node in asked.sight.by_node:
        return PageView(instead=f"gpu/{quote(text, safe='')}")
    with asked.watcher.reading() as (store, _):
        if CardRepo(store).identity(text) is not None:
            return PageView(instead=f"gpu/{quote(text, safe='')}")
    return PageView(instead=f"user/{quote(text, safe='')}")


ROUTES: Views = {"/job/{job}": job, "/find": find}
