"""The Ansible role in a clean Debian 12: --check, once, twice, changed settings, away again. No systemd runs there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.root import DATED, PROJECT, Root

pytestmark = pytest.mark.slow  # ansible-core, and pal-slurm with all that it needs, from the index

RECAP = re.compile(r"ok=(\d+)\s+changed=(\d+)\s+unreachable=0\s+failed=(\d+)")
SLURM_CONF = "ClusterName=x\nSlurmUser=slurm\nJobSubmitPlugins=lua\n"


class Host(Root):
    """One that Ansible is on, and plays to itself."""

    def play(self, *words: str) -> tuple[int, str]:
        """How many tasks changed something, and all that was said."""
        done = self.run(
            "env", "ANSIBLE_FORCE_COLOR=0", "ANSIBLE_NOCOLOR=1", "ANSIBLE_LOCALHOST_WARNING=0", "HOME=/root",
            "PYTHONDONTWRITEBYTECODE=1",
            "python3", "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local",
            "/src/packaging/ansible/site.yml",
            "-e", "pal_slurm_wheels=/wheels", "-e", "pal_slurm_venv_command='python3 -m virtualenv'",
            "-e", "ansible_python_interpreter=/usr/bin/python3", *words,
        )  # fmt: skip
        found = RECAP.search(done.stdout)
        assert done.returncode == 0 and found and found[3] == "0", done.stdout[-4000:] + done.stderr[-2000:]
        return int(found[2]), done.stdout

    def books(self) -> tuple[set[str], str]:
        """All files but Ansible's own, and all users."""
        files = {name for name in self.files() if not f"{name}/".startswith(("/root/", "/src/"))}
        return files, self.good("cat", "/etc/passwd", "/etc/group")


@pytest.fixture(scope="module")
def ready(clean: Path, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Ansible, the source, and wheels of it and of what it needs; nothing of pal-slurm is installed."""
    host = Host(clean, tmp_path_factory.mktemp("host"))
    up = host.home / "up"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    libs = up / "usr" / "local" / "lib" / "python3.11" / "dist-packages"
    built = tmp_path_factory.mktemp("dist")
    _run([*pip, "install", "--target", libs, "ansible-core", "virtualenv"])
    _run([PROJECT / "scripts" / "build-packages", "--out", built, "wheel"])
    _run([*pip, "download", "--dest", up / "wheels", next(built.glob("pal_slurm-*.whl"))])
    for part in ("packaging", "etc", "spank", "pal_slurm"):
        shutil.copytree(PROJECT / part, up / "src" / part, ignore=shutil.ignore_patterns("__pycache__"))
    (up / "etc" / "slurm").mkdir(parents=True)
    (up / "etc" / "slurm" / "slurm.conf").write_text(SLURM_CONF)
    return host


def _run(words: list[str | Path]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, env=DATED)
    assert done.returncode == 0, done.stderr


def test_it_is_checked_made_made_again_changed_and_taken_away(ready: Host) -> None:
    """One story, as each step builds on the one before; what was there at first is there at last."""
    books = ready.books()

    would, _ = ready.play("--check")
    assert would > 8
    assert ready.books() == books, "--check changes nothing"

    first, told = ready.play()
    assert first >= would - 1
    assert "GresTypes lacks gpu" in told, "the doctor's findings are shown"
    assert ready.good("palctl", "config", "check") == "/etc/pal-slurm/pal.yaml: good\n"
    assert ready.good("stat", "-c", "%U:%G:%a", "/etc/pal-slurm/pal.yaml") == "root:pal:640\n"
    assert ready.good("cat", "/etc/slurm/slurm.conf") == SLURM_CONF, "Slurm's own file is not ours to write"

    second, told = ready.play()
    assert second == 0, told
    print(told[told.index("PLAY RECAP") :])
    assert ready.play("--check")[0] == 0

    changed, _ = ready.play("-e", '{"pal_slurm_config": {"actuator": "pin", "canary": {"percent": 5}}}')
    assert changed == 1
    assert "canary.percent: 5" in ready.good("palctl", "config", "show")

    for nowhere in ("", "wheels", "https://index.example/simple"):  # pip, as root, asks no index for a name
        with pytest.raises(AssertionError, match="No index is asked"):
            ready.play("-e", f"pal_slurm_wheels='{nowhere}'")

    with pytest.raises(AssertionError, match="no such key"):
        ready.play("-e", '{"pal_slurm_config": {"actuators": "pin"}}')
    assert "canary.percent: 5" in ready.good("palctl", "config", "show"), "wrong settings are refused before they count"

    away = ["-e", "pal_slurm_state=absent", "-e", "pal_slurm_purge=true"]
    assert ready.play(*away)[0] >= 3
    assert ready.run("palctl", "--version").returncode != 0
    assert "/etc/slurm/job_submit.lua" in ready.files(), "while slurm.conf asks for it"
    ready.good("sh", "-c", "sed -i /JobSubmit/d /etc/slurm/slurm.conf")
    assert ready.play(*away)[0] == 1
    assert ready.play(*away)[0] == 0
    after = ready.books()
    assert (after[0] - books[0], books[0] - after[0], after[1]) == (set(), set(), books[1])


def test_a_site_s_own_script_stays_and_ours_lies_beside_it(ready: Host) -> None:
    own = "function slurm_job_submit() return 0 end\n"
    (ready.home / "up/etc/slurm/job_submit.lua").write_text(own)
    _, told = ready.play()
    assert ready.good("cat", "/etc/slurm/job_submit.lua") == own
    assert "/etc/slurm/pal_job_submit.lua" in ready.files()
    assert "does not call pal-slurm" in told
