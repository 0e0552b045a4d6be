"""The compute node's installation: an interpreter without one package runs the program."""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.probe.helpers import ROOT, card, describe, environment, printed, probe


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, with_pip=False, symlinks=True)
    return str(directory / "bin/python")


def test_inventory_and_fake_kernels_need_the_standard_library_only(bare_python: str, tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0))
    words = ["--warm", "0", "--run", "0.05", "--rounds", "1", "-k", "fake:A,pace=0", "-k", "gemm"]
    document = printed(probe("bench", "--devices", source, *words, python=bare_python))
    assert [run["app"] for run in document["runs"]] == ["fake-A"]
    assert document["faults"][0]["what"] == "ModuleNotFoundError: No module named 'numpy'"


def test_without_nvidia_ml_py_the_program_says_what_to_install(bare_python: str) -> None:
    result = probe("inventory", python=bare_python)
    assert result.returncode == 69 and "pip install nvidia-ml-py" in result.stderr


def test_a_training_script_imports_nothing_heavy() -> None:
    code = "import sys; from pal_slurm.probe import steps; print(sorted(sys.modules))"
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    ).stdout
    assert not {"numpy", "msgspec", "sqlalchemy", "click", "asyncio"} & set(json.loads(out.replace("'", '"')))


def test_the_program_runs_from_any_directory(tmp_path: Path) -> None:
    result = probe("kernels", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert result.returncode == 0 and "resnet" in result.stdout
