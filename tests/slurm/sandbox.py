"""A systemd unit's sandbox without systemd. In: `sandbox.py UNIT SYSCALLS CMD...`. Out: CMD, run under its seccomp.

For any Python: it is also run inside the root of another release. SYSCALLS names a file with what the unit's
SystemCallFilter means, one name per line. What systemd does by mounts is in `mounts` (a shell script, run by root).
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from pathlib import Path

KILL, ALLOW = 0x80000000, 0x7FFF0000
EQ, GREATER, MASKED = 4, 6, 7
CLONE_NEW = 0x7E020000 | 0x80  # every kind of namespace
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
IMITATED = ("RestrictAddressFamilies", "MemoryDenyWriteExecute", "RestrictNamespaces", "LockPersonality")


class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class Filter:
    def __init__(self, default: int) -> None:
        self.lib = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        self.lib.seccomp_init.restype = ctypes.c_void_p
        self.made = ctypes.c_void_p(self.lib.seccomp_init(ctypes.c_uint32(default)))

    def rule(self, action: int, name: str, *compare: Compare) -> None:
        number = self.lib.seccomp_syscall_resolve_name(name.encode())
        if number < 0:  # of another architecture
            return
        array = (Compare * len(compare))(*compare)
        code = self.lib.seccomp_rule_add_array(self.made, ctypes.c_uint32(action), number, len(compare), array)
        if code != 0:
            raise OSError(-code, f"no rule for {name}")

    def load(self) -> None:
        code = self.lib.seccomp_load(self.made)
        if code != 0:
            raise OSError(-code, "the filter was not taken")


def settings(unit: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in unit.read_text().splitlines() if "=" in line and line[0] not in "#[")
    return {key: value for key, _, value in lines}


def refuse(code: int) -> int:
    return 0x00050000 | code


def confine(unit: dict[str, str], syscalls: list[str]) -> None:
    only = Filter(KILL)
    for name in syscalls:
        only.rule(ALLOW, name)
    rest = Filter(ALLOW)
    families = {getattr(socket, name) for name in unit["RestrictAddressFamilies"].split()}
    for family in set(range(46)) - families:
        rest.rule(refuse(errno.EAFNOSUPPORT), "socket", Compare(0, EQ, family, 0))
    rest.rule(refuse(errno.EAFNOSUPPORT), "socket", Compare(0, GREATER, 45, 0))
    both = PROT_WRITE | PROT_EXEC
    rest.rule(refuse(errno.EPERM), "mmap", Compare(2, MASKED, both, both))
    for name in ("mprotect", "pkey_mprotect"):
        rest.rule(refuse(errno.EPERM), name, Compare(2, MASKED, PROT_EXEC, PROT_EXEC))
    rest.rule(refuse(errno.EPERM), "shmat", Compare(2, MASKED, SHM_EXEC, SHM_EXEC))
    for bit in (1 << n for n in range(32) if CLONE_NEW & 1 << n):
        for name in ("clone", "unshare"):
            rest.rule(refuse(errno.EPERM), name, Compare(0, MASKED, bit, bit))
    rest.rule(refuse(errno.EPERM), "setns")
    rest.rule(refuse(errno.ENOSYS), "clone3")
    rest.rule(refuse(errno.EPERM), "personality", Compare(0, GREATER, 0, 0))
    rest.rule(refuse(errno.EPERM), "sched_setscheduler", Compare(1, GREATER, 0, 0))
    rest.load()
    only.load()  # the last: it forbids more filters


def mounts(writable: Path, *others: Path) -> str:
    """ProtectSystem=strict, ProtectHome, PrivateTmp, PrivateDevices, ProtectProc: for root, in a mount namespace.

    Wherever they are, `writable` stays so, and `others` (the program, the cluster) can be read.
    """
    kept = " ".join(f"'{path}'" for path in (writable, *others))
    return f"""
mount --make-rprivate /
all=/run/pal-sandbox && mkdir -p "$all" && mount -t tmpfs -o mode=755 tmpfs "$all"
for path in {kept}; do mkdir -p "$all/kept$path" && mount --rbind "$path" "$all/kept$path"; done
mkdir "$all/dev" "$all/dev/shm"
for name in null zero full random urandom tty; do
    touch "$all/dev/$name" && mount --bind "/dev/$name" "$all/dev/$name"
done
mount -t tmpfs -o mode=1777 tmpfs "$all/dev/shm"
mount --rbind "$all/dev" /dev
for path in /home /root /run/user; do [ ! -d "$path" ] || mount -t tmpfs -o mode=755 tmpfs "$path"; done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t proc -o hidepid=invisible proc /proc
for path in {kept}; do mkdir -p "$path" && mount --rbind "$all/kept$path" "$path"; done
for path in / /home /root /run/user $(cut -d' ' -f2 /proc/self/mounts); do
    case $path in /proc*|/sys*|/tmp|/dev/shm|'{writable}'|'/run/pal-sandbox'*) ;;
        *) mount -o bind,remount,ro "$path" 2>/dev/null || true ;; esac
done
umask 0027
exec "$@"
"""


if __name__ == "__main__":
    chosen = settings(Path(sys.argv[1]))
    assert all(chosen.get(name) for name in IMITATED), chosen
    confine(chosen, Path(sys.argv[2]).read_text().split())
    os.execvp(sys.argv[3], sys.argv[3:])
