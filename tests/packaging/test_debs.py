"""The Debian packages in the root of a clean Debian 12: installed, used, upgraded, removed, purged."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.packaging.root import DATED, PROJECT, Root

pytestmark = pytest.mark.slow  # debootstrap, and a build of the packages


@pytest.fixture(scope="module")
def installed(clean: Path, debs: Path, tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(clean, tmp_path_factory.mktemp("installed"))
    root.put(debs)
    root.good("sh", "-c", "dpkg -i /debs/pal-slurm_*.deb /debs/pal-slurm-probe_*.deb /debs/pal-slurm-spank-22.05_*.deb")
    return root


def test_settings_are_in_place_and_good(installed: Root) -> None:
    assert installed.good("palctl", "config", "check") == "/etc/pal-slurm/pal.yaml: good\n"
    assert installed.good("pald", "--check-config") == "/etc/pal-slurm/pal.yaml is right\n"
    assert "lease.length_s" in installed.good("palctl", "config", "explain", "lease.length_s")


@pytest.mark.parametrize("page", ["1 palctl", "8 pald", "8 pal-page", "5 pal.yaml", "1 pal-probe", "1 pal-run"])
def test_man_pages_open(installed: Root, page: str) -> None:
    text = installed.good("man", *page.split())
    assert "NAME" in text
    assert "SEE ALSO" in text


@pytest.mark.parametrize("program", ["palctl", "pald", "pal-page", "pal-probe", "pal-run"])
def test_zsh_and_fish_can_read_their_completions(installed: Root, program: str) -> None:
    installed.good("zsh", "-n", f"/usr/share/zsh/vendor-completions/_{program}")
    installed.good("fish", "--no-execute", f"/usr/share/fish/vendor_completions.d/{program}.fish")
    installed.good("bash", "-n", f"/usr/share/bash-completion/completions/{program}")


def test_fish_offers_what_bash_offers(installed: Root) -> None:
    offered = installed.good("fish", "-c", "complete -C 'palctl config '").splitlines()
    assert [line.split("\t")[0] for line in offered] == ["check", "explain", "sample", "show"]
    assert "--json" in installed.good("fish", "-c", "complete -C 'palctl config check --j'")


def test_the_simulator_runs_there(installed: Root) -> None:
    assert "average JCT" in installed.good("palctl", "simulate", "synthetic:jobs=40", "--cluster", "4x4")


def test_a_picture_can_be_drawn_there(installed: Root) -> None:
    installed.good("palctl", "simulate", "synthetic:jobs=40", "--cluster", "4x4", "--plot", "/tmp/plot.png")


def test_the_database_can_be_made_by_palds_user_and_read_by_nobody_else(installed: Root) -> None:
    installed.good("runuser", "-u", "pal", "--", "palctl", "db", "upgrade")
    assert installed.good("stat", "-c", "%U:%a", "/var/lib/pal-slurm") == "pal:750\n"
    for file in ("/etc/pal-slurm/pal.yaml", "/var/lib/pal-slurm/pal.sqlite"):
        assert installed.run("runuser", "-u", "nobody", "--", "cat", file).returncode != 0


def test_the_probe_runs_by_itself(installed: Root) -> None:
    assert "resnet" in installed.good("pal-probe", "kernels")


def test_the_units_are_right_where_they_are_installed(installed: Root) -> None:
    units = sorted(path.name for path in (PROJECT / "etc" / "systemd").iterdir())
    done = installed.run("systemd-analyze", "verify", *(f"/usr/lib/systemd/system/{unit}" for unit in units))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pal" not in done.stderr


def test_an_upgrade_keeps_the_admins_settings(installed: Root) -> None:
    installed.good("sh", "-c", "sed -i 's/^canary:.*/canary: {percent: 10}/' /etc/pal-slurm/pal.yaml")
    installed.good("sh", "-c", "dpkg -i /debs/pal-slurm_*.deb")
    assert "canary.percent: 10" in installed.good("palctl", "config", "show")
    assert installed.good("stat", "-c", "%G:%a", "/etc/pal-slurm/pal.yaml") == "pal:640\n"


def test_purge_leaves_nothing_behind(clean: Path, debs: Path, tmp_path: Path) -> None:
    root = Root(clean, tmp_path)
    root.put(debs)
    before, users = root.files(), root.good("cat", "/etc/passwd", "/etc/group")
    root.good("sh", "-c", "dpkg -i /debs/pal-slurm_*.deb /debs/pal-slurm-probe_*.deb /debs/pal-slurm-spank-22.05_*.deb")
    assert root.files() - before
    root.good("runuser", "-u", "pal", "--", "palctl", "db", "upgrade")
    root.good("palctl", "simulate", "synthetic:jobs=20", "--cluster", "4x4")  # as root: could write compiled code
    root.good("pal-probe", "kernels")
    root.good("dpkg", "--purge", "pal-slurm", "pal-slurm-probe", "pal-slurm-spank-22.05")
    assert (root.files() - before, before - root.files()) == (set(), set())
    assert root.good("cat", "/etc/passwd", "/etc/group") == users


def test_each_slurm_has_a_plugin_package_of_its_own_and_two_do_not_fit_together(installed: Root, debs: Path) -> None:
    releases = sorted(deb.name.split("_")[0].rpartition("-")[2] for deb in debs.glob("pal-slurm-spank-*.deb"))
    assert "22.05" in releases
    if "24.11" not in releases:
        pytest.skip("no root of Slurm 24.11 on this machine: scripts/rootfs 24.11")
    done = installed.run("sh", "-c", "dpkg -i /debs/pal-slurm-spank-24.11_*.deb")
    assert "conflicting packages" in done.stdout + done.stderr


def test_the_same_source_gives_the_same_package(debs: Path, tmp_path: Path) -> None:
    again: list[str | Path] = [PROJECT / "scripts" / "build-packages", "--out", tmp_path, "probe", "spank"]
    subprocess.run(again, check=True, capture_output=True, timeout=900, env=DATED)
    for deb in tmp_path.glob("*.deb"):
        assert _digest(deb) == _digest(debs / deb.name), deb.name


def test_no_package_names_the_machine_that_built_it(debs: Path, tmp_path: Path) -> None:
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-R", deb, tmp_path / deb.stem], check=True, timeout=120)
    found = subprocess.run(
        ["grep", "-rlaF", "-e", f"{PROJECT}/", "-e", "/tmp/tmp.", "--include=*.py", "--include=*.pyc",
         "--include=*.so", "--include=control", "--include=*.1", "--include=*.json", str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    ours = [name for name in found.stdout.splitlines() if "pal_slurm" in name or name.endswith(("pal.so", "control"))]
    assert ours == []


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
