"""pald exchanges the GPUs of two jobs of a real Slurm while a third, which nobody leases, waits for any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Ending
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, plain
from tests.slurm.test_pald_moves import (
    COUNTS,
    MOVES,
    Two,
    dead_times,
    moves,
    show_that_it_is_slow,
    steps,
    two_on_two_nodes,
)  # fmt: skip


def two_to_exchange(minicluster: Minicluster, pald: Pald, home: Path, script: str = COUNTS) -> Two:
    """The one that minds slow GPUs sits on them, and a third job waits, which nobody leases."""
    jobs, files, slow, fast = two_on_two_nodes(minicluster, pald, script)
    with plain(minicluster):
        jobs["rival"] = minicluster.submit("--gres=gpu:4", "-t", "60")
    wait_for(lambda: minicluster.fields(jobs["rival"])["Reason"] == "Resources", "it waits for them")
    show_that_it_is_slow(pald, home, slow, fast)
    return jobs, files, slow, fast


def reservations(minicluster: Minicluster) -> str:
    return minicluster.client("scontrol", "show", "reservation", "-o")


@pytest.mark.slurm(turns=("24.11", "26.05"), slow=("22.05",))
def test_two_exchange_their_gpus_and_the_one_that_waits_without_a_lease_gets_none_of_them(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        jobs, files, slow, fast = two_to_exchange(minicluster, pald, tmp_path)
        pair = (jobs["resnet"], jobs["bert"])
        wait_for(lambda: all(any(m.ending for m in moves(pald, job)) for job in pair), "both moved", 240)
        assert {moves(pald, job)[0].ending for job in pair} == {Ending.MOVED}
        assert [set(minicluster.gpu_indices(job)) for job in pair] == [{fast}, {slow}]
        assert minicluster.state(jobs["rival"]) == "PENDING"
        wait_for(lambda: "pal-move-" not in reservations(minicluster), "the fences are lifted")
        wait_for(lambda: all(len(dead_times(log)) == 1 for log in files.values()), "they count again")
        for log in files.values():
            counted = [n for n, _, _ in steps(log)]
            assert counted == list(range(1, len(counted) + 1))
        made = [intent.edit.kind for intent in pald.intents(pair[0])]
        assert made.index(EditKind.FENCE) < made.index(EditKind.REQUEUE) < len(made) - made[::-1].index(EditKind.PIN)
        assert "others kept from its GPUs by a reservation" in pald.palctl("why", str(pair[0]))
        print(f"{minicluster.release}: dead {[f'{dead_times(log)[0]:.1f}' for log in files.values()]} s")
        minicluster.client("scancel", str(pair[0]))
        minicluster.wait_state(jobs["rival"], "RUNNING")


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_fence_of_a_pald_that_died_is_ended_by_undo_all_and_everybody_runs(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        two_to_exchange(minicluster, pald, tmp_path, COUNTS.replace("'exit 0' TERM", "'sleep 20' TERM"))  # slow to end
        wait_for(lambda: "pal-move-" in reservations(minicluster), "a fence stands", 240)
        pald.kill()
        assert "reservations of moves are ended" in pald.palctl("undo", "--all")
        assert "pal-move-" not in reservations(minicluster)
        wait_for(lambda: len(minicluster.client("squeue", "-h", "-t", "R").splitlines()) == 2, "two of three run", 240)
