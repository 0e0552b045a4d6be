"""A clean Debian 12, and the packages to install into it. In: debootstrap, scripts/build-packages. Out: fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.root import DATED, PROJECT


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("debs")
    done = subprocess.run(
        [PROJECT / "scripts" / "build-packages", "--out", out, "deb", "probe", "spank"],
        capture_output=True, text=True, timeout=1200, check=False, env=DATED,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def clean() -> Path:
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("a clean root needs root and debootstrap: sudo apt-get install debootstrap")
    script = Path(__file__).parent / "clean-root"
    done = subprocess.run([script], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())
