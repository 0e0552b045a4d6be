"""What was asked for, once it is understood. In: a request. Out: a page's number, a job, a card; or what is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from pal_slurm.page.sight import Sight
from pal_slurm.page.viewer import Viewer
from pal_slurm.page.watch import Lookout
from pal_slurm.report.pace import AskPace
from pal_slurm.words import digits

MOST_PAGE = 100_000


class Wrong(Exception):
    """400: words that mean nothing."""


class NotThere(Exception):
    """404."""


class NotYours(Exception):
    """403."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, with all that answers it."""

    request: Request
    viewer: Viewer
    watcher: Lookout
    sight: Sight
    pace: AskPace  # of questions of palctl

    def word(self, name: str, most: int = 300) -> str:
        """A word of the address or of its query; empty: not given."""
        text = str(self.request.path_params.get(name) or self.request.query_params.get(name) or "")
        if len(text) > most or "\0" in text:
            raise Wrong(f"{name} is no word that anything here is called by")
        return text.strip()

    def number(self, name: str = "page", least: int = 1, most: int = MOST_PAGE) -> int:
        text = self.word(name)
        if not text:
            return least
        if not digits(text) or len(text) > 9 or not least <= int(text) <= most:
            raise Wrong(f"{name} must be a whole number from {least} to {most}")
        return int(text)

    def choice(self, name: str, among: tuple[str, ...]) -> str:
        """The first of them where nothing is said."""
        text = self.word(name)
        if text and text not in among:
            raise Wrong(f"{name} must be one of {', '.join(among)}")
        return text or among[0]


def job_id(text: str) -> tuple[int, int | None]:
    """`17` or `17_3`."""
    job, underline, task = text.partition("_")
    parts = [job, task] if underline else [job]
    if not all(digits(part) and len(part) <= 10 for part in parts):
        raise Wrong(f"{text[:40]!r} is no job; write 1234, or 1234_5 for a task of an array")
    return int(job), int(task) if underline else None


@dataclass(frozen=True, slots=True)
class Pages:
    """Where one is in a long list."""

    number: int
    each: int
    total: int

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.each))

    @property
    def first_row(self) -> int:
        return (self.number - 1) * self.each


def paged(asked: Visit, total: int, each: int) -> Pages:
    pages = Pages(asked.number(), each, total)
    if pages.number > pages.last:
        raise NotThere(f"there is no page {pages.number}: the last one is {pages.last}")
    return pages
