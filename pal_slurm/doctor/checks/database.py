"""Where scores and the ledger are kept. In: a Site. Out: advice: the place, the driver, the schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from pal_slurm.config import database_url, without_password
from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.errors import PalError

STEP = 75
TITLE = "database"
UPGRADE = "palctl db upgrade"
# Kind of server -> the extra of ours, and the driver where the URL names none.
_DRIVERS = {
    "postgresql": ("postgresql", "psycopg"),
    "mysql": ("mariadb", "pymysql"),
    "mariadb": ("mariadb", "pymysql"),
}


def look(site: Site) -> Iterator[Advice]:
    try:
        url = database_url(site.pal, {}) if site.root != Path("/") else database_url(site.pal)
    except PalError as error:
        told, add = site.pal.database.url_file, "postgresql+psycopg://pal:PASSWORD@db/pal"
        if "can be read by others" in str(error):
            add = f"chmod 600 {told}"
        yield mend(str(error), add, f"{told}, of user {site.user}, mode 600", "systemctl restart pald")
        return
    if not url.startswith("sqlite"):
        yield from _server(site, url)
        return
    path = url.partition(":///")[2]
    file = site.at(path)
    if not file.parent.is_dir():
        owner = site.user
        yield mend(f"state_dir {Path(path).parent} is not there",
                   f"install -d -m 750 -o {owner} -g {owner} {Path(path).parent}", fix=_made(site, path))  # fmt: skip
        return
    uid = site.uid(site.user)
    if uid is not None and file.parent.stat().st_uid not in (uid, 0):
        yield mend(
            f"{Path(path).parent} belongs to another user than {site.user}", f"chown {site.user}: {Path(path).parent}"
        )
        return
    if uid is not None and file.exists() and file.stat().st_uid != uid:
        yield mend(
            f"{path} belongs to another user than {site.user}, who is to write it", f"chown {site.user}: {path}*"
        )
        return
    yield from _schema(site, f"sqlite:///{file}", file.exists())


def _server(site: Site, url: str) -> Iterator[Advice]:
    shown, kind = without_password(url), re.match(r"(\w+)(?:\+(\w+))?://", url)
    if kind is None or kind[1] not in _DRIVERS:
        yield mend(f"{shown} is no URL of a database", "palctl config explain database.url", site.pal_yaml)
        return
    extra, driver = _DRIVERS[kind[1]]
    if find_spec(kind[2] or driver) is None:
        yield mend(f"{shown}: its driver is not installed", f"pip install 'pal-slurm[{extra}]'", site.pal_yaml)
        return
    if site.commands is None:
        yield note(f"{shown} is not asked")
        return
    yield from _schema(site, url, True)


def _schema(site: Site, url: str, there: bool) -> Iterator[Advice]:
    from pal_slurm.store import open_store
    from pal_slurm.store.place import check_place

    try:
        if url.startswith("sqlite"):
            check_place(Path(url.partition(":///")[2]))
        if not there:
            who = f"as user {site.user}" if site.uid(site.user) is not None else ""
            yield mend("there is none yet", f"palctl --config {site.pal_yaml} db upgrade", who, fix=_upgraded(url))
            return
        open_store(url).close()
    except PalError as error:
        older = "palctl db upgrade" in str(error)
        yield mend(str(error), UPGRADE if older else "palctl db check", fix=_upgraded(url) if older else None)
    else:
        yield ok(f"{without_password(url)} has the schema of this release")


def _upgraded(url: str) -> Callable[[], str]:
    def upgrade() -> str:
        from pal_slurm.store.migrate import upgrade_url

        before, after = upgrade_url(url)
        return f"{without_password(url)}: schema {before or 'none'} -> {after}"

    return upgrade


def _made(site: Site, path: str) -> Callable[[], str]:
    def make() -> str:
        site.at(path).parent.mkdir(mode=0o750, parents=True)
        site.give(str(Path(path).parent))
        return f"made {Path(path).parent}"

    return make
