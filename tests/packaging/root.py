"""A clean Debian 12 to run commands in. In: its directory. Out: what commands say, which files there are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DATED = os.environ | {"SOURCE_DATE_EPOCH": "1790000000"}  # else the date of the last commit, as far as git is there

# Where dpkg, apt and man-db write down what they did; nothing of ours.
BOOKS = (
    "/var/lib/dpkg/",
    "/var/log/",
    "/var/cache/",
    "/var/lib/apt/",
    "/var/lib/systemd/",
    "/tmp/",
    "/proc/",
    "/run/mount",
)
# Backups that useradd and userdel make of what they change.
BACKUPS = {
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/.pwd.lock",
    "/etc/subuid-",
    "/etc/subgid-",
}


class Root:
    """A scratch copy of the clean root; each command sees it through an overlay that goes when the command ends."""

    def __init__(self, clean: Path, home: Path) -> None:
        self.clean, self.home = clean, home
        for name in ("up", "work", "whole"):
            (home / name).mkdir()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        script = (
            'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/whole"; '
            'mount -t proc proc "$2/whole/proc"; root=$2/whole; shift 2; '
            "exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive "
            'chroot "$root" "$@"'
        )
        space = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh"]
        return subprocess.run(
            [*space, self.clean, self.home, *words], capture_output=True, text=True, timeout=300, check=False
        )

    def good(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def put(self, debs: Path) -> None:
        (self.home / "up" / "debs").mkdir()
        for deb in debs.glob("*.deb"):
            shutil.copy(deb, self.home / "up" / "debs")

    def files(self) -> set[str]:
        found = self.good("find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-print").splitlines()
        return {name for name in found if not f"{name}/".startswith((*BOOKS, "/debs/")) and name not in BACKUPS}
