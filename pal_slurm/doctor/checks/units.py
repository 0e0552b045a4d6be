"""systemd's units, and the directory that pald and lua meet in. In: a Site. Out: advice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import UNITS, Site

STEP = 80
TITLE = "units"
_EXEC = re.compile(r"^ExecStart=[-@:+!]*(\S+)", re.MULTILINE)
_MAY_WRITE = re.compile(r"^ReadWritePaths=(.*)$", re.MULTILINE)


def look(site: Site) -> Iterator[Advice]:
    found = site.unit("pald.service")
    if found is None:
        yield mend("there is no pald.service",
                   "cp /opt/pal-slurm/venv/share/pal-slurm/systemd/* /etc/systemd/system/", "/etc/systemd/system",
                   "systemctl daemon-reload; or install the package")  # fmt: skip
        return
    path, text = found
    programs = _EXEC.findall(text)
    if programs and not site.there(programs[-1]):
        yield mend(
            f"{path} starts {programs[-1]}, which is not there", f"ln -s /opt/pal-slurm/venv/bin/pald {programs[-1]}"
        )
    elif not enabled(site, "pald.service"):
        yield mend("pald does not start with the host", "systemctl enable --now pald", "this host")
    else:
        yield ok(f"{path} is enabled")
    yield from _timer(site)
    yield from _spool(site, path, text)
    yield from _meeting(site)


def enabled(site: Site, name: str) -> bool:
    return any(link.name == name for place in UNITS for link in site.at(place).glob("*.wants/*"))


def _timer(site: Site) -> Iterator[Advice]:
    if site.pal.actuator == "shadow" or enabled(site, "pal-deadman.timer"):
        return
    yield mend("nobody frees the queue when pald is gone for good: the dead man's timer is off",
               "systemctl enable --now pal-deadman.timer", "this host")  # fmt: skip


def _spool(site: Site, path: str, text: str) -> Iterator[Advice]:
    spool = site.pal.profile.spool
    if not spool:
        return
    if not site.there(spool):
        yield mend(f"profile.spool {spool} is not there", f"install -d -m 1777 {spool}", site.pal_yaml)
    elif "ProtectSystem=strict" in text:
        may = [word.lstrip("-+") for words in _MAY_WRITE.findall(text) for word in words.split()]
        if not any(Path(spool).is_relative_to(where) for where in may):
            yield mend(f"pald's sandbox lets it write no file in {spool}", f"ReadWritePaths={spool}",
                       f"/etc/systemd/system/{Path(path).name}.d/spool.conf, below [Service]",
                       "systemctl daemon-reload; systemctl restart pald")  # fmt: skip


def _meeting(site: Site) -> Iterator[Advice]:
    """Where lua reads pald's sign of life."""
    told = site.pal.cycle.alive_file
    if not told:
        yield note("cycle.alive_file is empty: job_submit.lua gives no leases")
        return
    where = str(Path(told).parent)
    if not site.there(where):
        yield mend(f"{where} is not there: pald can't tell job_submit.lua that it lives",
                   "systemd-tmpfiles --create pal-slurm.conf", where, fix=_made(site, where))  # fmt: skip
    elif (uid := site.uid(site.user)) is not None and site.at(where).stat().st_uid not in (uid, 0):
        yield mend(f"{where} belongs to another user than {site.user}", f"chown {site.user}: {where}")


def _made(site: Site, where: str) -> Callable[[], str]:
    def make() -> str:
        site.at(where).mkdir(mode=0o755, parents=True)
        site.give(where)
        return f"made {where}"

    return make
