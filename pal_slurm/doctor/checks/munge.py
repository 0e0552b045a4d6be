"""Who proves who asks. In: a Site. Out: advice on munge's key and daemon, or on slurm.key."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site

STEP = 55
TITLE = "munge"
KEY = "/etc/munge/munge.key"


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        return
    if conf.value("AuthType", "auth/munge").lower() != "auth/munge":
        yield note(f"this Slurm proves who asks by {conf.value('AuthType')}, which is not looked at")
        return
    if site.there(KEY):
        mode = site.at(KEY).stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield mend(
                "others may read munge's key, and could be anybody", f"chmod 400 {KEY}", KEY, "make a new key, too"
            )
            return
    if site.commands is None:
        yield note("munged is not asked")
        return
    socket = dict(word.split("=", 1) for word in conf.words("AuthInfo") if "=" in word).get("socket", "")
    where = ["-S", socket] if socket else []
    made, why = site.answer("munge", [*where, "-n"])
    if not made:
        yield mend(f"munge makes no credential: {why}", "systemctl enable --now munge", "this host", "look again")
    else:
        _, why = site.answer("unmunge", where, made.encode())
        yield (
            mend(f"a credential of this host is refused: {why}", "systemctl restart munge")
            if why
            else ok("munge answers")
        )
