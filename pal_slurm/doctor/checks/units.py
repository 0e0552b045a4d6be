"""systemd's units, and the directory that pald and lua meet in. In: a Site. Out: advice."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pal_slurm.doctor.advice import Advice, mend, note, ok, to_place
from pal_slurm.doctor.site import UNITS, Site

STEP = 80
TITLE = "units"
_EXEC = re.compile(r"^ExecStart=[-@:+!]*(\S+)", re.MULTILINE)
_MAY_WRITE = re.compile(r"^ReadWritePaths=(.*)$", re.MULTILINE)


def look(site: Site) -> Iterator[Advice]:
    found = site.unit("pald.service")
    if found is None:
        ours = site.shared("systemd", "/opt/pal-slurm/venv/share/pal-slurm/systemd")
        yield to_place("there is no pald.service",
                       f"cp {ours}/* /etc/systemd/system/", "/etc/systemd/system",
                       "systemctl daemon-reload; or install the package")  # fmt: skip
        return
    path, text = found
    programs = _EXEC.findall(text)
    if programs and not site.there(programs[-1]):
        yield mend(f"{path} starts {programs[-1]}, which is not there", f"ln -s {_pald(site)} {programs[-1]}")
    elif not enabled(site, "pald.service"):
        yield to_place("pald does not start with the host", "systemctl enable --now pald", "this host")
    else:
        yield ok(f"{path} is enabled")
    yield from _timer(site)
    yield from _spool(site, path, text)
    yield from _meeting(site)


def _pald(site: Site) -> str:
    """The pald that is installed, by a package or where this palctl is."""
    ours = (str(Path(sys.prefix, "bin/pald")),) if site.root == Path("/") else ()
    other = "/opt/pal-slurm/venv/bin/pald"
    return next((path for path in (other, "/usr/bin/pald", *ours) if site.there(path)), other)


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
        make = f"install -d -m 0750 -o {site.user} -g {site.user} {spool}"
        yield mend(f"profile.spool {spool} is not there", make, site.pal_yaml)
        return
    yield from _who_writes(site, spool)
    if "ProtectSystem=strict" in text:
        may = [word.lstrip("-+") for words in _MAY_WRITE.findall(text) for word in words.split()]
        if not any(Path(spool).is_relative_to(where) for where in may):
            yield mend(f"pald's sandbox lets it write no file in {spool}", f"ReadWritePaths={spool}",
                       f"/etc/systemd/system/{Path(path).name}.d/spool.conf, below [Service]",
                       "systemctl daemon-reload; systemctl restart pald")  # fmt: skip


def _who_writes(site: Site, spool: str) -> Iterator[Advice]:
    """pald and the nodes; where jobs watch themselves users of a group, none of whom may touch another's file."""
    about = site.at(spool).stat()
    mode, group = stat.S_IMODE(about.st_mode), "chgrp GROUP {0}; chmod 3730 {0}, with GROUP for users whose jobs do"
    if (uid := site.uid(site.user)) is not None and about.st_uid not in (uid, 0):
        yield mend(f"profile.spool {spool} belongs to another user than {site.user}", f"chown {site.user} {spool}")
    elif mode & stat.S_IWOTH:
        yield mend(f"everybody may write profile.spool {spool} (mode {mode:o})",
                   f"chown {site.user}: {spool}; chmod 0750 {spool}", site.pal_yaml,
                   f"where jobs watch themselves: {group.format(spool)}")  # fmt: skip
    elif mode & stat.S_IWGRP and not mode & stat.S_ISVTX:
        yield mend(f"users of its group may remove each other's files in profile.spool {spool} (mode {mode:o})",
                   f"chmod +t {spool}", site.pal_yaml)  # fmt: skip
    state = site.pal.state_dir
    if site.there(state) and site.at(state).stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield mend(f"others may write state_dir {state}", f"chmod go-w {state}", site.pal_yaml)


def _meeting(site: Site) -> Iterator[Advice]:
    """Where lua reads pald's sign of life."""
    told = site.pal.cycle.alive_file
    if not told:
        yield note("cycle.alive_file is empty: job_submit.lua gives no leases")
        return
    where = str(Path(told).parent)
    if not site.there(where):
        yield to_place(f"{where} is not there: pald can't tell job_submit.lua that it lives",
                       "systemd-tmpfiles --create pal-slurm.conf", where, fix=_made(site, where))  # fmt: skip
        return
    meant = [told, *([site.pal.cycle.wake_file] if site.pal.cycle.wake_file else [])]
    missing = any(not site.at(path).is_file() or site.at(path).is_symlink() for path in meant)
    if missing and _only_roots(site, where):  # else root would make files in a directory of another
        yield mend(f"{' or '.join(meant)} is no plain file: pald and job_submit.lua can't meet there",
                   "systemd-tmpfiles --remove --create pal-slurm.conf", where, fix=_files(site, meant))  # fmt: skip
    elif missing or not _only_roots(site, where, *meant):
        yield mend(f"whoever runs as {site.user} can replace what slurmctld opens in {where}",
                   f"chown root {where} {' '.join(meant)}; chmod +t {where}", where,
                   "systemctl restart pald")  # fmt: skip


def _only_roots(site: Site, where: str, *files: str) -> bool:
    directory = site.at(where).stat()
    guarded = not directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or directory.st_mode & stat.S_ISVTX
    root = site.at("/").stat().st_uid
    return bool(guarded) and all(site.at(path).stat().st_uid == root for path in (where, *files))


def _made(site: Site, where: str) -> Callable[[], str]:
    """As etc/tmpfiles.d has it."""

    def make() -> str:
        site.at(where).mkdir(parents=True)
        site.at(where).chmod(0o1775)
        site.give(where, owner=False)
        return f"made {where}"

    return make


def _files(site: Site, meant: list[str]) -> Callable[[], str]:
    """Only what is missing: what else stands there is for an admin to look at."""

    def make() -> str:
        made = [path for path in meant if not os.path.lexists(site.at(path))]
        for path in made:
            site.at(path).touch(exist_ok=False)
            site.at(path).chmod(0o664 if path == meant[0] else 0o660)
            site.give(path, owner=False)
        return f"made {' and '.join(made) or 'nothing'}"

    return make
