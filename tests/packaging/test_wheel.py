"""The wheel and the sdist in an empty virtual environment, on a machine without Slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pal_slurm import __version__
from tests.probe.test_probe_nvml import Node, compiled

PROJECT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # each needs packages from the index


def run(
    *words: str | Path, cwd: Path | None = None, path: str = "/nowhere", more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Without this project's source in sight; on a path without Slurm, unless told otherwise."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PAL_", "SLURM", "VIRTUAL"))}
    env |= {"PATH": path, **(more or {})}
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=900, check=False, cwd=cwd, env=env
    )


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/build-packages writes for the index."""
    out = tmp_path_factory.mktemp("dist")
    done = run(PROJECT / "scripts" / "build-packages", "--out", out, "wheel", path=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    return out


def test_every_file_bears_the_version(dist: Path) -> None:
    assert all(f"-{__version__}" in path.name for path in dist.iterdir() if not path.name.startswith("SHA256SUMS"))


def installed(what: Path, home: Path) -> Path:
    """A new virtual environment that holds nothing else."""
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=300)
    done = run(home / "bin" / "pip", "install", "--quiet", what, cwd=home, path=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="session")
def venv(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    [wheel] = dist.glob("pal_slurm-*.whl")
    return installed(wheel, tmp_path_factory.mktemp("empty") / "venv")


def test_help_comes_at_once(venv: Path) -> None:
    """Under 0.3 s of the machine's time; the least of five, as others use the machine too."""
    took = []
    for _ in range(5):
        before, begun = os.times(), time.perf_counter()
        assert run(venv / "bin" / "palctl", "--help", cwd=venv).returncode == 0
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        took.append((used, time.perf_counter() - begun))
    print(f"palctl --help: {min(took)[0]:.3f} s CPU, {min(wall for _, wall in took):.3f} s wall")
    assert min(took)[0] < 0.3


def test_simulate_works_with_no_slurm_on_the_machine(venv: Path) -> None:
    done = run(venv / "bin" / "palctl", "simulate", "synthetic:jobs=60", "--cluster", "4x4", cwd=venv)
    assert done.returncode == 0, done.stderr
    assert "average JCT, h" in done.stdout
    print(done.stdout)


def test_settings_can_be_checked_and_pald_can_check_them_too(venv: Path) -> None:
    sample = venv / "share" / "pal-slurm" / "pal.yaml"
    assert run(venv / "bin" / "palctl", "config", "check", sample, cwd=venv).stdout == f"{sample}: good\n"
    done = run(venv / "bin" / "pald", "--config", sample, "--check-config", cwd=venv)
    assert (done.returncode, done.stdout) == (0, f"{sample} is right\n")


def test_pald_without_slurm_says_so_in_a_sentence(venv: Path, tmp_path: Path) -> None:
    config = tmp_path / "pal.yaml"
    config.write_text(f"state_dir: {tmp_path}\ncycle: {{wake_file: '', alive_file: ''}}\nmetrics: {{listen: ''}}\n")
    done = run(venv / "bin" / "pald", "--config", config, "--once", cwd=venv)
    assert done.returncode == 75
    assert "Traceback" not in done.stderr


def test_the_wheel_brings_manual_pages_completions_units_and_the_plugin(venv: Path) -> None:
    share = venv / "share"
    expected = [
        "man/man1/palctl.1", "man/man8/pald.8", "man/man8/pal-page.8", "man/man1/pal-probe.1", "man/man1/pal-run.1",
        "man/man5/pal.yaml.5",
        "bash-completion/completions/palctl", "zsh/site-functions/_palctl", "fish/vendor_completions.d/palctl.fish",
        "pal-slurm/pal.yaml", "pal-slurm/systemd/pald.service", "pal-slurm/systemd/pal-page.service",
        "pal-slurm/spank/job_submit.lua",
    ]  # fmt: skip
    assert [name for name in expected if not (share / name).is_file()] == []


def test_the_wheel_brings_the_page_s_templates_and_says_what_they_need(venv: Path, tmp_path: Path) -> None:
    for folder in ("report/templates", "page/templates", "page/static"):
        [brought] = venv.glob(f"lib/python*/site-packages/pal_slurm/{folder}")
        assert {path.name for path in brought.iterdir()} == {
            path.name for path in (PROJECT / "pal_slurm" / folder).iterdir()
        }
    done = run(venv / "bin" / "palctl", "report", "--html", tmp_path / "fleet.html", cwd=venv)
    assert (done.returncode, done.stderr) == (
        78, "palctl: palctl report --html needs jinja2: pip install 'pal-slurm[report]'\n"
    )  # fmt: skip
    done = run(venv / "bin" / "pal-page", "--config", venv / "share" / "pal-slurm" / "pal.yaml", cwd=venv)
    assert done.returncode == 78
    assert re.fullmatch(r"pal-page: pal-page needs \w+: pip install 'pal-slurm\[page\]'\n", done.stderr)


def test_the_probe_runs_by_itself(venv: Path) -> None:
    done = run(venv / "bin" / "pal-probe", "kernels", cwd=venv)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def compute_node(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    [wheel] = dist.glob("pal_slurm_probe-*.whl")
    return installed(wheel, tmp_path_factory.mktemp("node") / "venv")


def test_the_probe_s_own_wheel_brings_nothing_of_the_head_node(compute_node: Path) -> None:
    listed = json.loads(run(compute_node / "bin" / "pip", "list", "--format", "json", cwd=compute_node).stdout)
    names = {entry["name"] for entry in listed} - {"pip", "setuptools"}
    assert names == {"pal-slurm-probe", "nvidia-ml-py", "numpy"}
    [package] = compute_node.glob("lib/python*/site-packages/pal_slurm")
    assert {path.name for path in package.iterdir() if path.name != "__pycache__"} == {
        "__init__.py", "py.typed", "probe"
    }  # fmt: skip
    assert (compute_node / "share" / "pal-slurm" / "systemd" / "pal-probe.service").is_file()


def test_the_probe_s_own_wheel_works(compute_node: Path, tmp_path: Path) -> None:
    program = compute_node / "bin" / "pal-probe"
    for words in (["--help"], ["--version"], ["bench", "--help"], ["kernels"]):
        done = run(program, *words, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), words
    done = run(compute_node / "bin" / "pal-run", "--saved", "x", "--", "/bin/echo", "ran", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    node = Node(compiled(tmp_path), tmp_path / "gpus")
    done = run(program, "inventory", "-o", tmp_path / "doc.json", cwd=tmp_path, more=node.env)
    assert done.returncode == 0, done.stderr
    devices = json.loads((tmp_path / "doc.json").read_text())["devices"]
    assert [(d["uuid"], d["serial"], d["source"]) for d in devices] == [
        ("GPU-0", "165000", "nvml"), ("GPU-1", "165001", "nvml")
    ]  # fmt: skip
    assert run(program, "check", tmp_path / "doc.json", cwd=tmp_path).returncode == 0
    (tmp_path / "gpu.json").write_text('{"node": "n1", "devices": [{"uuid": "GPU-9", "slot": 0, "model": "a100"}]}')
    done = run(
        program, "bench", "--devices", "fake:gpu.json", "-k", "gemm", "--rounds", "1", "--warm", "0", "--run", "0.05",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"], done.stdout


def test_an_sdist_gives_the_same_package_as_the_wheel(dist: Path, venv: Path, tmp_path: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "packaging/hatch_build.py", "scripts/demo"} <= names
    assert not any(name.startswith((".venv", ".git/")) for name in names)
    other = installed(sdist, tmp_path / "venv")
    assert _files(other) == _files(venv)


def _files(venv: Path) -> set[str]:
    """Paths below the environment, without what belongs to the installer."""
    found = (
        str(path.relative_to(venv)) for path in venv.rglob("*") if "pal_slurm" in str(path) or "share" in path.parts
    )
    return {name for name in found if not re.search(r"__pycache__|direct_url|RECORD", name)}
