"""pald.service under a real systemd, booted in the root of a clean Debian 12, with a sandbox that lets pald work."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.test_units import EXPOSURE, MOST, SERVICES

pytestmark = pytest.mark.slow
BOOT = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/whole"
cd "$2/whole"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --bind "$3" mnt
container=pal exec chroot . /lib/systemd/systemd --system --unit=multi-user.target
"""


class Machine:
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        return subprocess.run([*inside, *clean, *words], capture_output=True, text=True, timeout=120, check=False)

    def good(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait(self, *words: str, answer: str) -> None:
        end = time.monotonic() + 60
        said = ""
        while answer not in said:
            assert time.monotonic() < end, f"{' '.join(words)}: {said}"
            time.sleep(0.2)
            said = self.run(*words).stdout


@pytest.fixture
def machine(clean: Path, debs: Path, tmp_path: Path) -> Iterator[Machine]:
    for name in ("up", "work", "whole"):
        (tmp_path / name).mkdir()
    space = ["unshare", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--fork", "--kill-child"]
    words: list[str | Path] = [*space, "--propagation", "private", "sh", "-euc", BOOT, "sh", clean, tmp_path, debs]
    booted = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        child = Path(f"/proc/{booted.pid}/task/{booted.pid}/children")
        end = time.monotonic() + 20
        while not child.read_text().strip():
            assert time.monotonic() < end, "nothing was started"
            time.sleep(0.05)
        found = Machine(int(child.read_text()))
        found.wait("systemctl", "is-system-running", answer="ing")  # starting, running
        found.wait("systemctl", "is-active", "multi-user.target", answer="active")
        yield found
    finally:
        booted.kill()  # and, by --kill-child, all within
        booted.wait(30)


def test_pald_works_within_its_sandbox_and_is_gone_after_purge(machine: Machine) -> None:
    machine.good("sh", "-c", "dpkg -i /mnt/pal-slurm_*.deb")
    assert machine.run("systemctl", "is-enabled", "pald").stdout == "disabled\n"  # the admin's word is needed
    met = machine.good("sh", "-c", "stat -c '%U:%G %a' /run/pal-slurm /run/pal-slurm/alive /run/pal-slurm/wake")
    assert met.splitlines() == ["root:pal 1775", "root:pal 664", "root:pal 660"]
    machine.run("systemctl", "enable", "--now", "pald", "pal-deadman.timer")
    # There is no Slurm here: it comes as far as that, with numpy loaded and a database made, and says so in a sentence.
    machine.wait("journalctl", "-u", "pald", answer="pald: can't run scontrol: No such file or directory")
    assert machine.good("stat", "-c", "%U %a", "/var/lib/pal-slurm/pal.sqlite") == "pal 640\n"
    log = machine.good("journalctl", "--no-pager")
    assert "SIGSYS" not in log
    assert "status=75" in machine.run("systemctl", "status", "pald", "--no-pager").stdout
    machine.wait("systemctl", "is-active", "pal-deadman.timer", answer="active")
    for unit in SERVICES:  # as they are loaded there, not as their files say
        if machine.run("systemctl", "cat", unit).returncode != 0:
            continue  # of another package
        told = machine.good("systemd-analyze", "security", "--no-pager", unit)
        found = re.search(r"Overall exposure level for \S+ (\d+\.\d)", told)
        assert found is not None, told
        print(f"{unit}: exposure {found[1]}")
        assert float(found[1]) <= EXPOSURE.get(unit, MOST)
    an_upgrade_is_whole_though_pald_does_not_start_after_it(machine)
    machine.good("dpkg", "--purge", "pal-slurm")
    assert machine.run("sh", "-c", "ls -d /etc/pal-slurm /var/lib/pal-slurm /run/pal-slurm").stdout == ""
    assert machine.good("sh", "-c", "find /etc/systemd -name 'pal*'") == ""
    assert machine.run("systemctl", "is-active", "pald", "pal-deadman.timer").stdout.split() == ["inactive"] * 2


def an_upgrade_is_whole_though_pald_does_not_start_after_it(machine: Machine) -> None:
    """As with a new schema, before `palctl db upgrade`; dpkg would leave the package half-configured."""
    drop = "/etc/systemd/system/pald.service.d"
    machine.good("mkdir", "-p", drop)
    write = "printf '[Service]\\nType=%s\\nExecStart=\\nExecStart=%s\\n'"
    machine.good("sh", "-c", f"{write} exec '/bin/sleep 600' >{drop}/other.conf; systemctl daemon-reload")
    machine.good("systemctl", "restart", "pald")
    machine.good("sh", "-c", f"{write} notify /bin/false >{drop}/other.conf")
    said = machine.good("sh", "-c", "dpkg -i /mnt/pal-slurm_*.deb 2>&1")
    assert "does not start; journalctl -u pald" in said, said
    assert machine.good("dpkg-query", "-W", "-f", "${db:Status-Status}", "pal-slurm") == "installed"
    machine.good("rm", "-r", drop)
