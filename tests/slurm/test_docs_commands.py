"""The commands of the documents that need a cluster, on a real one with a pald beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name, pages_with, run
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import BIN, Pald

SCORES = "node,slot,model,class,score\n" + "".join(f"n1,{slot},a100,A,{1 + slot / 10}\n" for slot in range(4))


@pytest.mark.every(3)
@pytest.mark.slurm("26.05")
@pytest.mark.parametrize("page", pages_with("run slurm"), ids=name)
def test_the_commands_of_a_page_run_on_a_cluster(page: Path, minicluster: Minicluster, tmp_path: Path) -> None:
    assert page in PAGES
    with Pald(minicluster, tmp_path / "pald") as pald:
        pald.start()
        home = tmp_path / "home"
        home.mkdir()
        (home / "scores.csv").write_text(SCORES)
        path = os.pathsep.join([str(BIN), str(minicluster.bin), os.environ["PATH"]])
        run(page, "run slurm", home, {"PAL_CONFIG": str(pald.config), "PATH": path})
        pald.stop()
