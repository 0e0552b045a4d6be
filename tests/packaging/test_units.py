"""The systemd units: systemd has no complaint about them, and finds little that they leave open."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ETC = Path(__file__).parents[2] / "etc"
UNITS = sorted(path.name for path in (ETC / "systemd").iterdir())
SERVICES = [name for name in UNITS if name.endswith(".service")]
# What `systemd-analyze security` may find at most, of 10. pal-probe has to see the GPUs and whose processes use them.
EXPOSURE = {"pal-probe.service": 3.0}
MOST = 2.0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with our units, the programs that they name and systemd's own targets; nothing of this machine's units."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    root = tmp_path_factory.mktemp("root")
    units = root / "usr" / "lib" / "systemd" / "system"
    units.mkdir(parents=True)
    (root / "lib").symlink_to("usr/lib")
    for unit in (ETC / "systemd").iterdir():
        shutil.copy(unit, units)
        for program in re.findall(r"^Exec\w+=[-+!@:]*(/\S+)", unit.read_text(), re.MULTILINE):
            path = root / program.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
    for target in Path("/lib/systemd/system").glob("*.target"):
        (units / target.name).write_bytes(target.read_bytes())
    return root


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_has_no_complaint(root: Path, unit: str) -> None:
    done = analyze("verify", "--man=no", f"--root={root}", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_wrong_word_in_a_unit_would_be_found(root: Path) -> None:
    (root / "usr/lib/systemd/system/wrong.service").write_text("[Service]\nExecStart=/usr/bin/pald\nProtectHme=yes\n")
    done = analyze("verify", "--man=no", f"--root={root}", "wrong.service")
    assert "ProtectHme" in done.stderr


@pytest.mark.parametrize("unit", SERVICES)
def test_little_is_left_open(root: Path, unit: str) -> None:
    done = analyze("security", "--offline=yes", "--no-pager", f"--root={root}", unit)
    found = re.search(r"Overall exposure level for \S+ (\d+\.\d)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    print(f"{unit}: exposure {found[1]}")
    assert float(found[1]) <= EXPOSURE.get(unit, MOST)


@pytest.mark.parametrize("unit", SERVICES)
def test_none_runs_as_root_or_without_a_memory_cap(unit: str) -> None:
    text = (ETC / "systemd" / unit).read_text()
    assert re.search(r"^User=pal(-page)?$", text, re.MULTILINE)
    assert "\nMemoryMax=" in text
    assert "\nNoNewPrivileges=yes\n" in text


def test_pald_tells_systemd_when_it_is_ready_and_that_it_lives() -> None:
    text = (ETC / "systemd" / "pald.service").read_text()
    assert "\nType=notify\n" in text
    assert "\nWatchdogSec=" in text


@pytest.mark.parametrize("unit", ["pald.service", "pal-page.service"])
def test_slurmctld_comes_first_where_processors_are_taken(unit: str) -> None:
    text = (ETC / "systemd" / unit).read_text()
    weight = re.search(r"^CPUWeight=(\d+)$", text, re.MULTILINE)
    assert weight is not None and int(weight[1]) < 100  # what a unit has by itself


def test_timers_have_their_services() -> None:
    assert [name for name in UNITS if name.endswith(".timer") and name.replace(".timer", ".service") not in UNITS] == []


MEETING = ETC / "tmpfiles.d" / "pal-slurm.conf"
ATTACKS = """
import fcntl, os, sys
found = []
for name in ("alive", "wake"):
    for what in ("os.unlink(name)", "os.rename(name, 'x')", "os.rename('mine', name)", "os.chmod(name, 0)",
                 "os.chown(name, 4242, -1)", "fcntl.fcntl(os.open(name, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)"):
        open("mine", "w").close()
        try:
            exec(what)
            found.append(name + ": " + what)
        except PermissionError:
            pass
    with open(name, "r+") as file:
        file.write("1")
print("; ".join(found))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_whoever_runs_as_pald_can_replace_nothing_that_slurmctld_opens(tmp_path: Path) -> None:
    if shutil.which("systemd-tmpfiles") is None:
        pytest.skip("systemd-tmpfiles is not installed: apt-get install systemd")
    rules = "".join(
        f"{line.replace(' /run/', f' {tmp_path}/run/').replace(' pal ', ' 4243 ')}\n"
        for line in MEETING.read_text().splitlines()
        if " /run/" in line and not line.startswith("#")
    )
    (tmp_path / "rules.conf").write_text(rules)
    for path in (tmp_path, *list(tmp_path.parents)[:2]):
        path.chmod(0o755)
    (tmp_path / "run").mkdir()
    done = subprocess.run(["systemd-tmpfiles", "--create", tmp_path / "rules.conf"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    words = ["setpriv", "--reuid=4242", "--regid=4243", "--clear-groups", "/usr/bin/python3", "-c", ATTACKS]
    as_pald = subprocess.run(words, cwd=tmp_path / "run" / "pal-slurm", capture_output=True, text=True, check=False)
    assert (as_pald.returncode, as_pald.stdout.strip()) == (0, ""), as_pald.stderr


def test_systemd_gives_pald_no_directory_that_slurmctld_reads() -> None:
    text = (ETC / "systemd" / "pald.service").read_text()
    assert "\nRuntimeDirectory=" not in text and "\nReadWritePaths=-/run/pal-slurm\n" in text
    assert [line.split()[1:5] for line in MEETING.read_text().splitlines() if line[:2] in ("d ", "f ")][1:] == [
        ["/run/pal-slurm", "1775", "root", "pal"],
        ["/run/pal-slurm/alive", "0664", "root", "pal"],
        ["/run/pal-slurm/wake", "0660", "root", "pal"],
    ]


def test_the_user_of_the_units_is_made_by_sysusers_d() -> None:
    assert re.search(r"^u pal ", (ETC / "sysusers.d" / "pal-slurm.conf").read_text(), re.MULTILINE)
