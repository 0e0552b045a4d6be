"""Applications of jobs that nobody tagged. In: patterns of pal.yaml, a snapshot. Out: the same with hints filled in.

The first pattern that fits wins. A tag of the user's own always wins, but for one that names an application nobody
knows and that a `tag` pattern maps to one that is known (`resnet101` to `resnet50`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from pal_slurm.config.apps import PatternEntry
from pal_slurm.model import Job, Snapshot

_REMEMBERED = 50_000  # names of jobs seen; a queue repeats itself


@dataclass(frozen=True)
class Patterns:
    entries: tuple[PatternEntry, ...]

    def tagged(self, snapshot: Snapshot, known: Collection[str]) -> Snapshot:
        """`known`: applications that are described; a tag that names one of them is left alone."""
        if not self.entries:
            return snapshot
        pending = self._jobs(snapshot.pending, known)
        return replace(snapshot, pending=pending, running=self._jobs(snapshot.running, known))

    def _jobs(self, jobs: Sequence[Job], known: Collection[str]) -> tuple[Job, ...]:
        return tuple(self._job(job, known) for job in jobs)

    def app_of(self, tag: str | None, name: str, command: str, known: Collection[str]) -> str | None:
        """What a job with that tag, name and script is taken for; None: its tag stands, if it has one."""
        if tag in known:
            return None
        return _first(self.entries, tag or "", "" if tag else name, "" if tag else command)

    def _job(self, job: Job, known: Collection[str]) -> Job:
        tag = job.hint.app
        if job.hint.dropped:
            return job
        app = self.app_of(tag, job.name, job.command, known)
        return replace(job, hint=replace(job.hint, app=app, guessed=not tag)) if app else job


@lru_cache(maxsize=_REMEMBERED)
def _first(entries: tuple[PatternEntry, ...], tag: str, name: str, command: str) -> str | None:
    script = command.split(" ", 1)[0]
    for entry in entries:
        wanted = ((entry.tag, tag), (entry.job_name, name), (entry.script, script))
        if all(fnmatchcase(text, pattern) and text for pattern, text in wanted if pattern):
            return entry.app
    return None
