"""Is pald at work, and what does it say is wrong with it? In: a Site, its database. Out: advice, once one has led."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pal_slurm.config import database_url
from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.errors import PalError
from pal_slurm.store import Leadership, Said, Store, Switches, open_store

STEP = 95
TITLE = "pald"
LOG = "journalctl -u pald -n 20"


def look(site: Site) -> Iterator[Advice]:
    if site.root != Path("/") or not site.running:
        yield ok("the running pald is not asked")
        return
    try:
        store = open_store(database_url(site.pal), read_only=True)
    except PalError:
        return  # the check of the database has said so
    try:
        yield from _told(site, store, site.running.get("ClusterName", ""))
    except PalError as error:
        yield mend(f"{error}", "palctl db check")
    finally:
        store.close()


def _told(site: Site, store: Store, cluster: str) -> Iterator[Advice]:
    term, pause = Leadership(store, cluster).current(), Switches(store).paused()
    if pause is not None or site.there(site.pal.pause_file()):
        yield note(f"paused {pause.told if pause else site.pal.pause_file()}", "palctl resume")
    if term is None:
        yield ok("no pald has been at work here yet")
    elif term.expires <= time.time():
        yield mend("pald has been at work here, and none is now", LOG, "this host", "systemctl restart pald")
    else:
        yield ok(f"{term.owner} leads")
        for said in Said(store, cluster).notes():
            yield note(f"it says: {said}", LOG)
