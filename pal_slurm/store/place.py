"""Where files of pald may lie, and whose they are. In: a path. Out: nothing, or a StoreError: what is wrong with it."""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from pal_slurm.errors import StoreError

# WAL needs shared memory and locks that work; neither does across hosts (sqlite.org/wal.html).
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "fuse.sshfs", "glusterfs", "fuse.glusterfs"}
_SHARED = {
    "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "ocfs2", "gfs2", "pvfs2", "orangefs", "panfs",
}  # fmt: skip
_NETWORK = frozenset(_REMOTE | _SHARED)
MOUNTS = Path("/proc/self/mountinfo")
SIDE_FILES = ("-wal", "-shm", "-journal")  # that SQLite makes beside a database, and opens by name
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_rights = threading.RLock()  # they are the process's: one thread at a time changes them


def check_place(path: Path, mounts: Path = MOUNTS) -> None:
    """Refuse a missing directory, a network file system, what is no plain file, a file that everybody may write."""
    directory = path.parent
    try:
        device = directory.stat().st_dev
    except OSError as error:
        raise StoreError(
            f"directory {directory} of the database: {error.strerror}; make it, owned by the user that pald runs as"
        ) from error
    kind = file_system(device, mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"database {path} lies on a network file system ({kind}), where SQLite can lose data; "
            "put state_dir on a local disk, or set database.url to PostgreSQL or MariaDB"
        )
    for side in (path.with_name(f"{path.name}{end}") for end in SIDE_FILES):
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(side.lstat().st_mode):
                raise StoreError(f"{side}, which SQLite would open beside the database, is not a plain file; remove it")
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise StoreError(f"database {path} is not a file")
    if mode & stat.S_IWOTH:
        raise StoreError(f"database {path} can be written by everybody; run: chmod o-w {path}")


@contextlib.contextmanager
def as_owner_of(path: Path | None) -> Iterator[None]:
    """Root has, within, no more rights than who could put links and pipes in the way of a file at `path`.

    SQLite opens a database and its side files by name, and pald's directory is its user's. What is made belongs to him.
    """
    if path is None or os.getresuid()[2] != 0 or (ids := _owner(path)) is None:
        yield
        return
    with _rights:
        if os.geteuid() != 0:  # within another of these
            yield
            return
        groups, group = os.getgroups(), os.getegid()
        try:
            os.setgroups([])
            os.setegid(ids[1])
            os.seteuid(ids[0])
        except OSError as error:
            _root_again(group, groups)
            raise StoreError(f"root can't act as user {ids[0]}, whose {path.parent} is: {error.strerror}") from error
        try:
            yield
        finally:
            _root_again(group, groups)


def _root_again(group: int, groups: list[int]) -> None:
    os.seteuid(0)
    os.setegid(group)
    with contextlib.suppress(PermissionError):  # the root of some container, which could not give them up either
        os.setgroups(groups)


def _owner(path: Path) -> tuple[int, int] | None:
    """Of the first directory, or link, on the way to `path` that is not root's; None: all are."""
    for place in reversed(path.parents):
        try:
            about = place.lstat()
            if about.st_uid != 0:
                return about.st_uid, about.st_gid or _main_group(about.st_uid)
            if stat.S_ISLNK(about.st_mode):  # root's own
                return _owner(place.parent / place.readlink() / path.relative_to(place))
        except OSError:
            return None  # check_place says what is wrong
    if path.is_symlink():
        return _owner(path.parent / path.readlink())
    if about.st_mode & _OTHERS:
        raise StoreError(
            f"directory {path.parent} of the database can be written by others; run: chmod go-w {path.parent}"
        )
    return None


def _main_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def give_to_its_place(made: int, path: Path) -> None:
    """A file that root makes by a command belongs to whom its directory belongs to: pald, who is no root, uses it."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):  # the root of some container may not
            home = path.parent.stat()
            os.fchown(made, home.st_uid, home.st_gid)


def file_system(device: int, mounts: Path = MOUNTS) -> str | None:
    """Type of the file system with that device number; None where the kernel doesn't say."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        mount, _, rest = line.partition(" - ")
        fields = mount.split(" ")
        if len(fields) > 2 and fields[2] == wanted:
            return rest.split(" ", 1)[0]
    return None
