"""What is handed out: built twice, the same bytes; from the sdist without a network; signed; its bill of materials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pal_slurm import __version__
from tests.packaging.root import DATED, PROJECT

pytestmark = pytest.mark.slow  # builds of the wheels, with all that they need

Words = list[str | Path]
SIGNER = "pal-slurm tests <tests@localhost>"


def good(words: Words, env: Mapping[str, str] = DATED, cwd: Path | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, env=env, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def keyring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A builder's key of its own, in a keyring that goes away."""
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    env = dict(DATED) | {"GNUPGHOME": str(home)}
    good(["gpg", "--batch", "--passphrase", "", "--quick-generate-key", SIGNER, "ed25519", "sign"], env)
    yield env
    good(["gpgconf", "--kill", "all"], env)  # its agent


@pytest.fixture(scope="module")
def signed(keyring: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("signed")
    good([PROJECT / "scripts" / "build-packages", "--out", out, "wheel"], keyring | {"PAL_SIGN_KEY": SIGNER})
    return out


def test_the_same_source_gives_the_same_bytes(signed: Path, tmp_path: Path) -> None:
    good([PROJECT / "scripts" / "build-packages", "--out", tmp_path, "wheel"])
    names = {path.name for path in tmp_path.iterdir()}
    assert {name.rpartition(".")[2] for name in names} == {"whl", "gz", "json", "SHA256SUMS"}
    for name in sorted(names):
        assert (tmp_path / name).read_bytes() == (signed / name).read_bytes(), name
    print((tmp_path / "SHA256SUMS").read_text())


def test_the_checksums_are_signed_and_of_every_file(signed: Path, keyring: dict[str, str]) -> None:
    good(["gpg", "--verify", signed / "SHA256SUMS.asc", signed / "SHA256SUMS"], keyring)
    good(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=signed)
    listed = {line.split("  ", 1)[1] for line in (signed / "SHA256SUMS").read_text().splitlines()}
    assert listed | {"SHA256SUMS", "SHA256SUMS.asc"} == {path.name for path in signed.iterdir()}
    sums = signed / "SHA256SUMS"
    whole = sums.read_bytes()
    try:
        sums.write_bytes(whole.replace(b"0", b"1", 1))
        with pytest.raises(AssertionError, match="BAD signature"):
            good(["gpg", "--verify", signed / "SHA256SUMS.asc", sums], keyring)
    finally:
        sums.write_bytes(whole)


def test_a_key_that_is_not_there_is_named(tmp_path: Path, keyring: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="PAL_SIGN_KEY=nobody"):
        good([PROJECT / "scripts" / "build-packages", "--out", tmp_path, "wheel"], keyring | {"PAL_SIGN_KEY": "nobody"})


def test_the_bill_of_materials_is_cyclonedx_and_names_what_is_brought(signed: Path, tmp_path: Path) -> None:
    text = (signed / f"pal-slurm-{__version__}.cdx.json").read_text()
    told = json.loads(text)
    assert told["metadata"]["component"]["purl"] == f"pkg:pypi/pal-slurm@{__version__}"
    pinned = dict(line.split("==") for line in (PROJECT / "constraints.txt").read_text().splitlines() if "==" in line)
    parts = {part["name"]: part["version"] for part in told["components"]}
    assert {"numpy", "sqlalchemy", "alembic", "msgspec", "click", "psycopg", "pymysql"} <= parts.keys()
    assert {name: pinned[name] for name in parts} == parts, "what constraints.txt says is what is in it"
    assert all(part.get("licenses") for part in told["components"])
    good([sys.executable, "-m", "venv", tmp_path / "venv"])
    pip: Words = [tmp_path / "venv" / "bin" / "pip", "-q", "--disable-pip-version-check"]
    good([*pip, "install", "cyclonedx-python-lib[json-validation]"])
    judge = (
        "import sys\nfrom cyclonedx.schema import SchemaVersion\n"
        "from cyclonedx.validation.json import JsonStrictValidator\n"
        "fault = JsonStrictValidator(SchemaVersion.V1_5).validate_str(sys.stdin.read())\n"
        "sys.exit(str(fault) if fault else 0)"
    )
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", judge], input=text, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_sdist_builds_where_there_is_no_network(signed: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a network of its own needs root")
    [sdist] = signed.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    good([sys.executable, "-m", "venv", tmp_path / "venv"])
    pip: Words = [tmp_path / "venv" / "bin" / "pip", "-q", "--disable-pip-version-check"]
    needs = [
        "hatchling>=1.25",
        "click>=8.1",
        "msgspec>=0.18.6",
        "numpy>=1.26",
        "pyyaml>=6.0",
    ]  # pyproject's build-system
    good([*pip, "install", "-c", PROJECT / "constraints.txt", *needs])
    alone = ["unshare", "--net", "--", *pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    good([*alone, tmp_path / f"pal_slurm-{__version__}"])
    [built], [handed] = tmp_path.glob("*.whl"), signed.glob("pal_slurm-*.whl")
    assert built.read_bytes() == handed.read_bytes()
