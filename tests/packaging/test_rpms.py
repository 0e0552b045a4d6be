"""The RPMs: what is in them, rpmlint, and installed into a clean root by Debian's rpm, as far as that goes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.packaging.root import BACKUPS, BOOKS, DATED, PROJECT, Root

pytestmark = pytest.mark.slow  # wheels for three Pythons, and ten RPMs

TARGETS = {"el9": "3.11", "el10": "3.12", "sles15": "3.11"}  # EL 8 is as EL 9


def said(*words: str | Path) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SPECS = sorted((PROJECT / "packaging" / "rpm").glob("*.spec"))


@pytest.fixture(scope="session")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("rpmbuild") is None or shutil.which("rpmlint") is None:
        pytest.skip("no rpmbuild or rpmlint on this machine: scripts/setup --packages")
    out = tmp_path_factory.mktemp("rpms")
    built: list[str | Path] = [PROJECT / "scripts" / "build-packages", "--out", out, "rpm"]
    asked = {"PAL_RPM_TARGETS": " ".join(f"{name}:{python}" for name, python in TARGETS.items())}
    done = subprocess.run(built, capture_output=True, text=True, timeout=2400, check=False, env=DATED | asked)
    assert done.returncode == 0, done.stderr
    return out


def one(rpms: Path, name: str) -> Path:
    [found] = rpms.glob(f"{name}.rpm")
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_each_system_gets_what_it_needs_where_it_looks_for_it(rpms: Path, target: str) -> None:
    package = one(rpms, f"pal-slurm-0*.{target}.*")
    files = set(said("rpm", "-qlp", package).splitlines())
    assert {
        "/usr/bin/pald", "/usr/bin/palctl", "/usr/bin/pal-page", "/etc/pal-slurm/pal.yaml",
        "/usr/lib/systemd/system/pald.service", "/usr/lib/tmpfiles.d/pal-slurm.conf", "/usr/share/man/man1/palctl.1.gz",
        "/usr/share/man/man8/pald.8.gz", "/usr/share/pal-slurm/spank/job_submit.lua",
    } <= files  # fmt: skip
    assert not [name for name in files if name.startswith(("/usr/local", "/opt", "/root", "/tmp"))]
    needs = said("rpm", "-qp", "--requires", package).splitlines()
    assert f"/usr/bin/python{TARGETS[target]}" in needs
    assert ("shadow" if target == "sles15" else "shadow-utils") in needs
    assert not [need for need in needs if ".so" in need], "libraries of our own directory are asked of nobody"
    compiled = {name.partition(".cpython-")[2].partition("-")[0] for name in files if ".so" in name} - {""}
    assert compiled == {TARGETS[target].replace(".", "")}, "wheels of the Python that runs them"


def test_the_plugin_lies_where_slurm_of_el_and_sles_keeps_plugins(rpms: Path) -> None:
    package = one(rpms, "pal-slurm-spank-*")
    assert "/usr/lib64/slurm/pal.so" in said("rpm", "-qlp", package).splitlines()
    conflicts = said("rpm", "-qp", "--conflicts", package)
    assert "slurm < " in conflicts and "slurm >= " in conflicts, "another release of Slurm takes it out"


def test_rpmlint_finds_nothing(rpms: Path) -> None:
    told = said("rpmlint", "-c", PROJECT / "packaging/rpm/rpmlint.toml", *sorted(rpms.glob("*.rpm")), *SPECS)
    assert " 0 errors, 0 warnings" in told, told


class RpmRoot(Root):
    """Debian 12 has a Python 3.11 as EL 9 has, so what is installed there runs."""

    def rpm(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        script = (
            'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/up,workdir=$2/work" "$2/whole"; '
            'mount -t proc proc "$2/whole/proc"; root=$2/whole; shift 2; exec rpm --root "$root" "$@"'
        )
        space = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh"]
        return subprocess.run(
            [*space, self.clean, self.home, *words], capture_output=True, text=True, timeout=300, check=False
        )

    def good_rpm(self, *words: str | Path) -> str:
        done = self.rpm(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self) -> set[str]:
        """Without rpm's own database, and without directories: Debian's are not all those that EL has."""
        found = self.good(
            "find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "!", "-type", "d", "-print"
        ).splitlines()
        return {name for name in found if not name.startswith((*BOOKS, "/root/.rpmdb/")) and name not in BACKUPS}


def install(root: RpmRoot, packages: Sequence[Path]) -> None:
    root.good_rpm("-i", "--nodeps", *packages)  # what it needs is there, but Debian's database of RPMs is empty


def el9(rpms: Path) -> list[Path]:
    return [one(rpms, "pal-slurm-0*.el9.*"), one(rpms, "pal-slurm-probe-0*.el9.*"), one(rpms, "pal-slurm-spank-*")]


def test_installed_it_runs_and_erased_it_leaves_what_is_the_site_s(clean: Path, rpms: Path, tmp_path: Path) -> None:
    root = RpmRoot(clean, tmp_path)
    before = root.files()
    install(root, el9(rpms))
    assert root.good("palctl", "config", "check") == "/etc/pal-slurm/pal.yaml: good\n"
    assert root.good("pald", "--check-config") == "/etc/pal-slurm/pal.yaml is right\n"
    assert "average JCT" in root.good("palctl", "simulate", "synthetic:jobs=20", "--cluster", "4x4")
    assert "resnet" in root.good("pal-probe", "kernels")
    assert root.good("stat", "-c", "%U:%G:%a", "/etc/pal-slurm/pal.yaml") == "root:pal:640\n"
    assert root.good("stat", "-c", "%U:%a", "/var/lib/pal-slurm") == "pal:750\n"
    assert root.good_rpm("-V", "--nodeps", "pal-slurm", "pal-slurm-probe") == ""
    root.good("sh", "-c", "sed -i 's/^canary:.*/canary: {percent: 10}/' /etc/pal-slurm/pal.yaml")
    root.good_rpm("-U", "--nodeps", "--replacepkgs", one(rpms, "pal-slurm-0*.el9.*"))
    assert "canary.percent: 10" in root.good("palctl", "config", "show"), "an upgrade keeps the admin's settings"
    root.good_rpm("-e", "pal-slurm", "pal-slurm-probe", root.good_rpm("-qa", "pal-slurm-spank*").strip())
    left = {name for name in root.files() - before if not name.startswith(("/var/lib/pal-slurm", "/run/pal-slurm"))}
    assert left == {"/etc/pal-slurm/pal.yaml.rpmsave"}
    assert before <= root.files()


def test_the_same_source_gives_the_same_rpms(rpms: Path, tmp_path: Path) -> None:
    again: list[str | Path] = [PROJECT / "scripts" / "build-packages", "--out", tmp_path, "rpm"]
    subprocess.run(again, check=True, capture_output=True, timeout=2400, env=DATED | {"PAL_RPM_TARGETS": "el9:3.11"})
    for package in tmp_path.glob("*.rpm"):
        assert package.read_bytes() == (rpms / package.name).read_bytes(), package.name
