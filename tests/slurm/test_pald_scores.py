"""pald with scores that do not fit its cluster: of nodes that Slurm lacks, of too few nodes, in bad files (P7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald, pin_of

HEAD = "node,slot,class,score\n"
BAD = {
    "not a number": "n8,0,A,nan\n",
    "infinite": "n8,0,A,inf\n",
    "zero": "n8,0,A,0\n",
    "negative": "n8,0,A,-1.2\n",
    "twice": "n8,0,A,1.2\nn8,0,A,1.3\n",
    "absurd": "n8,0,A,1e9\n",
}


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_scores_of_nodes_that_slurm_lacks_and_nodes_without_scores_do_no_harm(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    known = "".join(f"n{node},{slot},A,1.04\n" for node in (1, 2) for slot in range(4))
    best = "".join(f"ghost,{slot},A,0.5\n" for slot in range(4))
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0
        (tmp_path / "some.csv").write_text(HEAD + known + best)
        done = pald.run_palctl("scores", "import", str(tmp_path / "some.csv"))
        assert done.returncode == 0
        assert "some.csv:10: node: Slurm has no node 'ghost': scores of 4 GPUs count for nothing" in done.stderr
        (tmp_path / "none.csv").write_text(HEAD + "n1,44,A,1.0\n" + best)
        done = pald.run_palctl("scores", "import", str(tmp_path / "none.csv"))
        assert done.returncode == 65
        assert "none.csv:2: slot: node n1 has no GPU 44 in Slurm, and none of the file's 5 GPUs" in done.stderr
        assert "name nodes as sinfo does" in done.stderr and "nothing was imported" in done.stderr
        pald.start()
        jobs = [minicluster.submit("--gres=gpu:4", "--comment=app:resnet") for _ in minicluster.nodes]
        for job in jobs:  # all of the cluster is used, and nothing waits for what is not there
            minicluster.wait_state(job, "RUNNING", within=60)
        # The first pin of each: a busy Slurm may take so long that one is undone and made anew.
        nodes = [node for job in jobs for node in pin_of(pald.intents(job, EditKind.PIN)[0]).nodes or ()]
        assert sorted(nodes) == sorted(minicluster.nodes)
        assert set(nodes[:6]) == set(minicluster.nodes) - {"n1", "n2"}  # unknown counts as 1.0, which beats 1.04


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_bad_scores_are_refused_by_line_and_field_and_pald_goes_on_with_those_it_has(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({"n5:0": 0.7, "n5:1": 0.7})
        before = pald.palctl("scores", "--json", "-o", "node,slot,A")
        pald.start()
        for name, rows in BAD.items():
            (tmp_path / "bad.csv").write_text(f"{HEAD}n5,1,A,3.0\n{rows}")
            done = pald.run_palctl("scores", "import", str(tmp_path / "bad.csv"))
            assert done.returncode == 65, name
            line, field = (4, "class") if name == "twice" else (3, "score")
            assert f"bad.csv:{line}: {field}: " in done.stderr, (name, done.stderr)
        assert pald.palctl("scores", "--json", "-o", "node,slot,A") == before
        job = minicluster.submit("--gres=gpu:2")
        minicluster.wait_state(job, "RUNNING")
        (pin,) = pald.intents(job, EditKind.PIN)
        assert pin_of(pin).nodes == ("n5",)
        if pin_of(pin).slots is not None:
            assert pin_of(pin).slots == (0, 1)
