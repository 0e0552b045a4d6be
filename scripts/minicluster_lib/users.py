"""Users that only a cluster has, for --users. In: names. Out: DIR/etc/passwd and group, this machine's and theirs, and
homes. The cluster's processes see these files as /etc/passwd and /etc/group; the machine's own are not touched."""

import grp
import os
import pwd
import re
from pathlib import Path

from .errors import MiniclusterError
from .layout import Layout
from .spec import Spec

FIRST_ID = 30001  # above people, below what containers take (subuid)
MOST = 64
TOGETHER = "pal-spool"  # the group of those who may write into the spool
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


def names(text: str) -> list[str]:
    """`alice,bob` -> the names, each one that a user of Unix may have."""
    found = text.split(",") if text else []
    for name in found:
        if not _NAME.fullmatch(name):
            raise MiniclusterError(
                f"--users: {name!r} is no user's name: a-z, 0-9, '-' and '_', at most 31, a letter first"
            )
    if len(set(found)) < len(found) or len(found) > MOST:
        raise MiniclusterError(f"--users {text!r}: each name once, at most {MOST}")
    return found


def check(spec: Spec) -> None:
    """Nobody of this machine's: who has an account here may use the cluster with it."""
    for name in spec.users:
        if _known(name):
            raise MiniclusterError(
                f"--users: {name} is a user or group of this machine already; leave the name out, "
                f"`in-cluster --user {name}` works all the same if it is a user"
            )


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        try:
            grp.getgrnam(name)
        except KeyError:
            return False
    return True


def make(layout: Layout, spec: Spec) -> int | None:
    """The number of the group that all of them are in; None: there are none."""
    if not spec.users:
        return None
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    free = (number for number in range(FIRST_ID, FIRST_ID + MOST + len(taken) + 1) if number not in taken)
    passwd, group = (_whole_lines(Path("/etc") / name) for name in ("passwd", "group"))
    layout.homes.mkdir()
    for name, number in zip(spec.users, free, strict=False):
        home = layout.homes / name
        home.mkdir(mode=0o755)
        os.chown(home, number, number)
        passwd += f"{name}:x:{number}:{number}::{home}:/bin/sh\n"
        group += f"{name}:x:{number}:\n"
    together = next(free)
    group += f"{TOGETHER}:x:{together}:{','.join(spec.users)}\n"
    (layout.etc / "passwd").write_text(passwd)
    (layout.etc / "group").write_text(group)
    return together


def _whole_lines(path: Path) -> str:
    text = path.read_text()
    return text if text.endswith("\n") else text + "\n"
