"""Where files of pald may lie, and whose they are. In: a path. Out: nothing, or a StoreError: what is wrong with it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from pal_slurm.errors import StoreError

# WAL needs shared memory and locks that work; neither does across hosts (sqlite.org/wal.html).
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "fuse.sshfs", "glusterfs", "fuse.glusterfs"}
_SHARED = {
    "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "ocfs2", "gfs2", "pvfs2", "orangefs", "panfs",
}  # fmt: skip
_NETWORK = frozenset(_REMOTE | _SHARED)
MOUNTS = Path("/proc/self/mountinfo")


def check_place(path: Path, mounts: Path = MOUNTS) -> None:
    """Refuse a missing directory, a network file system, and a file that everybody may write."""
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
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise StoreError(f"database {path} is not a file")
    if mode & stat.S_IWOTH:
        raise StoreError(f"database {path} can be written by everybody; run: chmod o-w {path}")


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
