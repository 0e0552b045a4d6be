"""One seed or script, lived and judged. In: Script. Out: History, and what the judge has to say against it."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import Dialect, Engine, create_engine
from sqlalchemy.pool import QueuePool

from pal_slurm.store import engine
from pal_slurm.store.migrate import upgrade_url
from tests.fuzz import dues, hints
from tests.fuzz.alone import first_starts, lived_alone, places
from tests.fuzz.history import History
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.script import Script
from tests.fuzz.seen import Overheard
from tests.fuzz.world import Bench

MEMORY = Path("/dev/shm")  # pald's books of a world need no disk


@dataclass
class Court:
    """Where worlds live: a directory in memory and an empty database."""

    home: Path
    template: Path
    told: Callable[[str], None] | None = None  # every history, as text

    def lived(self, script: Script) -> History:
        history = self._live(script)
        starts = lived_alone(script, history)
        history.alone = {name: start.at for name, start in starts.items()}
        history.alone_places = places(starts)
        if script["scores"] == "absurd":
            neutral = self._live(replace(script, setting={**script.setting, "scores": "none"}))
            history.neutral = places(first_starts(Overheard(neutral.events)))
        if script["scores"] == "lied":
            honest = self._live(replace(script, setting={**script.setting, "scores": "measured"}))
            history.honest = places(first_starts(Overheard(honest.events)))
        if script["hints"] == "forged" and script["scores"] == "classes":
            history.honest_tags = first_starts(Overheard(self._live(hints.honest(script)).events))
        if script["claims"] == "yes":
            modest = self._live(dues.without_claims(script))
            starts = first_starts(Overheard(modest.events))
            history.modest = {name: start.at for name, start in starts.items()}
        if script["sharing"] == "yes" and not script.happenings:
            unshared = self._live(replace(script, setting={**script.setting, "sharing": "no"}))
            history.unshared = {n: start.at for n, start in first_starts(Overheard(unshared.events)).items()}
        if self.told is not None:
            self.told(re.sub(rf":{os.getpid()}(@[0-9a-f]*)?", "", repr(history).replace(str(self.home), "")))
        return history

    def tried(self, script: Script) -> list[Verdict]:
        return judge(self.lived(script))

    def _live(self, script: Script) -> History:
        home = self.home / "world"
        home.mkdir()
        bench = Bench(script, home, self.template)
        try:
            return bench.run()
        except Exception as error:  # of pald's, or of the bench's own: either is to be looked at
            bench.history.broke = f"{type(error).__name__}: {error}"
            return bench.history
        finally:
            shutil.rmtree(home)


@contextmanager
def court() -> Iterator[Court]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as home:
        template = Path(home) / "template.sqlite"
        upgrade_url(f"sqlite:///{template}")
        gc.freeze()  # what was imported stays: nobody need look through it again
        try:
            with _quick_stores():
                yield Court(Path(home), template)
        finally:
            gc.unfreeze()


@contextmanager
def _quick_stores() -> Iterator[None]:
    """Each world opens its own database: what SQLAlchemy made of a statement serves all of them.

    Who holds a lock here stands further down the stack: nobody frees it while somebody waits for it.
    """
    dialects: list[Dialect] = []
    compiled: dict[object, object] = {}

    def make(url: str, **options: Any) -> Engine:
        made = create_engine(url, **options)
        if options.get("poolclass") is QueuePool:
            dialects.append(made.dialect)
            made.dialect = dialects[0]
            made.update_execution_options(compiled_cache=compiled)
        return made

    with patch.object(engine, "create_engine", make), patch.object(engine, "LOCK_WAIT_S", 0.0):
        yield


Trying = Callable[[Script], list[Verdict]]
