"""The private world of a cluster: a mount namespace and a host name, made of the release's root.

In: Layout, the release's root (if it is not this machine's own), a mark. Out: the calling process is
inside, together with all that it starts; nothing is mounted as seen from outside, so nothing
stays mounted when the processes end.
The mark is the source name of a small tmpfs: who sees it among its mounts belongs to the cluster, whatever it did with
its environment, session or parent.
"""

import ctypes
import os
from pathlib import Path

from .errors import MiniclusterError
from .layout import Layout, cache

_CLONE_NEWNS, _CLONE_NEWUTS = 0x20000, 0x4000000
_MS_RDONLY, _MS_NOSUID, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
_PR_SET_CHILD_SUBREAPER = 36
# At the top of the release's root: what is its own, what starts empty; all the rest is this machine's.
_ITS_OWN, _KERNEL = ("usr", "etc"), ("proc", "sys", "dev")
_EMPTY = ("run", "var", "var/cache", "var/lib", "var/log", "var/spool")
_NOT_SHARED = {*_ITS_OWN, *_KERNEL, "run", "var", "boot", "lost+found"}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise MiniclusterError(
            f"{what}: {os.strerror(number)}. A mini-cluster needs root with CAP_SYS_ADMIN (private mounts, "
            "host name); in a container: --privileged or --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
        )


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    result = _libc.mount(
        source.encode(),
        str(target).encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _call(f"cannot mount {target}", result)


def _bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), target, None, _MS_BIND | _MS_REC)


class Outside:
    """This machine as this process sees it before it enters a world: for the way back, and for what belongs there."""

    def __init__(self) -> None:
        self._mounts, self._host = (os.open(f"/proc/self/ns/{k}", os.O_RDONLY | os.O_CLOEXEC) for k in ("mnt", "uts"))

    def command(self) -> list[str]:
        """Words before a command that is to run outside."""
        ours = f"/proc/{os.getpid()}/fd"
        return ["nsenter", f"--mount={ours}/{self._mounts}", f"--uts={ours}/{self._host}", "--"]

    def leave_to(self) -> None:
        """Back to these mounts; the world ends when its last process does."""
        _call("cannot leave the world", _libc.setns(self._mounts, _CLONE_NEWNS))


def enter(layout: Layout, mark: str) -> None:
    """Move this process into a new world, and make it the reaper of its orphans."""
    _call("cannot make namespaces", _libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS))
    _mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE)
    _call("cannot set the host name", _libc.sethostname(b"localhost", 9))
    _call("cannot become a subreaper", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    _mount(mark, layout.world, "tmpfs", _MS_NOSUID, "size=64k,mode=755")
    (layout.world / "inside").write_text(mark)
    for name in ("hosts", "passwd", "group"):
        if (layout.etc / name).exists():
            _mount(str(layout.etc / name), Path("/etc") / name, None, _MS_BIND)
    os.chdir("/")


def change_root(layout: Layout, root: Path) -> None:
    """A new root: the release's /usr and /etc (read-only), an empty /var and /run, the rest this machine's."""
    new = layout.run / "root"
    _mount("pal-minicluster-root", new, "tmpfs", _MS_NOSUID, "size=4m,mode=755")
    for name in _EMPTY:
        (new / name).mkdir()
    for name in _ITS_OWN:
        _bind(root / name, new / name)
        _mount("none", new / name, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    for entry in root.iterdir():
        if entry.is_symlink():  # bin, lib, lib64, sbin
            (new / entry.name).symlink_to(entry.readlink())
    for name in _KERNEL:
        _bind(Path("/") / name, new / name)
    _share(layout, new)
    for name in ("passwd", "group", "resolv.conf", "hosts"):
        if (root / "etc" / name).exists():
            _mount(f"/etc/{name}", new / "etc" / name, None, _MS_BIND)
    os.chroot(new)
    os.chdir("/")


def _share(layout: Layout, new: Path) -> None:
    """This machine's directories, at the same paths: home directories, /tmp, the project, wherever they are."""
    for entry in Path("/").iterdir():
        if entry.is_dir() and not entry.is_symlink() and entry.name not in _NOT_SHARED:
            _bind(entry, new / entry.name)
    for path in (Path("/var/tmp"), cache(), layout.dir):
        if path.parts[1] in _ITS_OWN:
            raise MiniclusterError(
                f"{path}: /{path.parts[1]} is the release's own inside the cluster, choose another place"
            )
        if path.parts[1] in ("var", "run") and path.exists():
            _bind(path, new / path.relative_to("/"))
