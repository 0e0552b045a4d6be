"""Whom pald runs as, and what he may do. In: a Site. Out: advice: the user, AdminLevel, the bell's group."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, note, ok, to_place
from pal_slurm.doctor.site import Site

STEP = 65
TITLE = "rights"
_ENOUGH = ("operator", "administrator")


def look(site: Site) -> Iterator[Advice]:
    user = site.user
    if site.uid(user) is None:
        make = f"useradd --system --home-dir /var/lib/pal-slurm --shell /usr/sbin/nologin {user}"
        yield to_place(f"there is no user {user}, whom pald runs as", make, "/etc/passwd")
        return
    conf = site.conf
    if conf is None:
        return
    slurm_user = conf.value("SlurmUser", "root")
    if slurm_user in (user, "root") and user in ("root", slurm_user):
        yield ok(f"pald runs as SlurmUser {user}")
        return
    yield _level(site, user, slurm_user)
    if slurm_user != "root" and site.pal.cycle.wake_file and not site.in_group(slurm_user, user):
        yield to_place(f"slurmctld's user {slurm_user} is not in group {user}: it can't ring pald's bell",
                       f"usermod -a -G {user} {slurm_user}", "/etc/group", "systemctl restart slurmctld")  # fmt: skip


def _level(site: Site, user: str, slurm_user: str) -> Advice:
    conf = site.conf
    assert conf is not None
    if conf.value("AccountingStorageType").lower() != "accounting_storage/slurmdbd":
        return to_place(f"without slurmdbd there are no operators: {user} may edit nobody else's jobs",
                        f"User={slurm_user}", "/etc/systemd/system/pald.service.d/user.conf, below [Service]",
                        "systemctl daemon-reload")  # fmt: skip
    if site.commands is None:
        return note(f"whether {user} is an operator is not asked")
    text, why = site.answer("sacctmgr", ["-n", "-P", "show", "user", user, "format=user,adminlevel"])
    if why:
        return note(f"sacctmgr can't tell whether {user} is an operator: {why}")
    rows = dict(line.split("|", 1) for line in text.splitlines() if "|" in line)
    if rows.get(user, "").lower() in _ENOUGH:
        return ok(f"{user} is {rows[user]} in Slurm")
    known = f"modify user {user} set" if user in rows else f"add user {user} account=root"
    return to_place(f"{user} is {rows.get(user) or 'unknown'} in Slurm, so it may edit nobody else's jobs",
                    f"sacctmgr -i {known} adminlevel=operator", "slurmdbd", "systemctl restart pald")  # fmt: skip
