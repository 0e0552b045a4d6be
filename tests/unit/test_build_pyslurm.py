"""scripts/build-pyslurm, which runs as root: nothing that pip fetches for it runs unless its hash is pinned."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import re
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "build-pyslurm"
PINNED = re.compile(r"^([a-z]+)==([0-9.]+) \\$", re.MULTILINE)


@pytest.fixture
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("build_pyslurm", str(SCRIPT))
    spec = importlib.util.spec_from_loader("build_pyslurm", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def wheel(at: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(at / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))


def sdist(at: Path, version: str) -> None:
    with tarfile.open(at / f"pyslurm-{version}.tar.gz", "w:gz") as archive:
        for name, text in {
            "PKG-INFO": f"Metadata-Version: 2.1\nName: pyslurm\nVersion: {version}\n",
            "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
        }.items():
            entry = tarfile.TarInfo(f"pyslurm-{version}/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def test_an_index_that_lies_runs_nothing(tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the right names and versions, and others' content: of the tools, and of pyslurm itself."""
    index, ran = tmp_path / "index", tmp_path / "ran"
    index.mkdir()
    versions = dict(PINNED.findall((SCRIPT.parent / "pyslurm-shim" / "tools.txt").read_text()))
    assert set(versions) == {"setuptools", "wheel", "packaging", "cython"}
    for name, version in versions.items():
        wheel(index, name, version, {f"{name}/build_meta.py": f"open({str(ran)!r}, 'w')\n", f"{name}/__init__.py": ""})
    sdist(index, script.PYSLURM)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(script.Failure, match="DO NOT MATCH THE HASHES"):
        script.download(into, "3.11.2", None)
    assert not ran.exists() and not list(into.iterdir())
