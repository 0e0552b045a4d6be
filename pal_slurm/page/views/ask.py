"""What palctl asks for a user on hosts where pald does not run: the same answers as at pald's socket, as JSON."""

from __future__ import annotations

import time

from pal_slurm.errors import BadInput
from pal_slurm.learning.telling import app_rows
from pal_slurm.page.asked import NotYours, Visit
from pal_slurm.page.views import PageView, Views
from pal_slurm.report.answering import Answered, Asker, Question, UserAnswers
from pal_slurm.report.pace import TOO_OFTEN


def ask(asked: Visit) -> PageView:
    viewer = asked.viewer
    if not (viewer.name or viewer.everything):
        raise NotYours("say who you are: a token of Slurm's, as `scontrol token` gives it")
    if viewer.name and not asked.pace.may(viewer.name, time.monotonic()):
        return PageView(record=Answered(error=TOO_OFTEN))
    begun = time.thread_time()
    try:
        return PageView(record=_answer(asked))
    finally:
        asked.pace.cost(viewer.name, time.thread_time() - begun)


def _answer(asked: Visit) -> Answered:
    viewer, watcher = asked.viewer, asked.watcher
    most, utc = asked.number("most", 1, 100_000), asked.choice("zone", ("", "utc")) == "utc"
    question = Question(asked.word("what", 10), asked.word("job", 24), most, utc)
    with watcher.reading() as (store, cluster):
        answers = UserAnswers(store, cluster, lambda: app_rows(store, watcher.config), lambda: asked.sight.present)
        try:
            return answers.to(question, Asker(viewer.name, viewer.everything))
        except BadInput as error:
            return Answered(error=str(error))


ROUTES: Views = {"/ask/{what}": ask, "/ask/{what}/{job}": ask}
