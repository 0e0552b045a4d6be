"""A store that only reads: for who may read the file and nothing else, with pald at work or without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pal_slurm.errors import StoreError
from pal_slurm.store import Store, Switches, open_store

NOBODY = 65_534
LOOK = """
import sys
from pal_slurm.store import Switches, open_store
store = open_store(sys.argv[1], read_only=True)
print(Switches(store).paused().reason)
"""


def test_it_reads_and_refuses_to_be_written(store: Store, store_url: str) -> None:
    Switches(store).pause("lunch", 1.0)
    reader = open_store(store_url, read_only=True)
    try:
        pause = Switches(reader).paused()
        assert pause is not None and pause.reason == "lunch"
        with pytest.raises(StoreError, match="can't be written"):
            Switches(reader).resume()
    finally:
        reader.close()
    assert Switches(store).paused() is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as another user")
@pytest.mark.parametrize("pald", ["at work", "gone"])
def test_who_may_only_read_the_file_reads_it(public_path: Path, pald: str) -> None:
    home = public_path / "pal"
    home.mkdir()
    url = f"sqlite:///{home}/pal.sqlite"
    store = open_store(url, create=True)
    Switches(store).pause("lunch", 1.0)
    if pald == "gone":
        store.close()
    for path in (home, *home.iterdir()):
        shutil.chown(path, group=NOBODY)
        path.chmod(0o750 if path.is_dir() else 0o640)
    before = sorted(path.name for path in home.iterdir())
    done = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", sys.executable, "-c", LOOK, url],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("lunch\n", 0), done.stderr
    assert sorted(path.name for path in home.iterdir()) == before
    store.close()
