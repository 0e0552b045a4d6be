"""Settings of sites that decide where a job starts: shared CPUs, cores near a GPU, blocks; sites/ has more of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald, pin_of
from tests.slurm.sites.run import compare, differences
from tests.slurm.sites.table import SITES
from tests.turns import turn

Make = Callable[..., Minicluster]
APART = {"apps": {"bert": {"class": "A", "comm": {"node": 1.0, "rack": 1.0, "cluster": 1.0}}}}


@pytest.mark.slurm(turns=("26.05", "24.11", "22.05"))
def test_who_lacks_only_cpus_that_others_share_starts_and_a_pin_that_slurm_alone_can_judge_is_the_last(
    make_minicluster: Make, tmp_path: Path
) -> None:
    cluster = make_minicluster("--nodes=4", "--gpus=4", "--near", "--partitions", "forced=n[3-4] OverSubscribe=FORCE:4")
    for node in ("n1", "n2"):  # the first socket is taken, which g0 and g1 are near
        cluster.submit("-n16", "-B1:16:1", "-w", node)
    for _ in range(2):
        cluster.wait_state(cluster.submit("-N1", "-n32", "-p", "forced"), "RUNNING")
    with Pald(cluster, tmp_path, {"policy.patience": "none", **APART}) as pald:
        assert pald.once() == 0
        pald.scores({f"n{node}:{slot}": 0.7 for node in (1, 2) for slot in (0, 1)})
        pald.start()
        shared = [cluster.submit("--gres=gpu:1", "-p", "forced") for _ in range(3)]
        near = ("--gres=gpu:1", "-c4", "--gres-flags=enforce-binding", "--comment=app:bert", "-x", "n[3-4]")
        bound = [cluster.submit(*near) for _ in range(2)]
        for job in (*shared, *bound):
            cluster.wait_state(job, "RUNNING")
        assert {intent.edit.kind for job in shared for intent in pald.intents(job)} <= {EditKind.PLAIN, EditKind.RENEW}
        assert all(len(pald.intents(job, EditKind.PIN)) <= 1 for job in bound)


@pytest.mark.slurm(turns=("26.05", "24.11"))
def test_nodes_of_one_job_are_pinned_within_one_block(make_minicluster: Make, tmp_path: Path) -> None:
    cluster = make_minicluster("--nodes=4", "--gpus=2", "--rack-size=2", "--set=TopologyPlugin=topology/block")
    with Pald(cluster, tmp_path, {"policy.patience": "none", **APART}) as pald:
        assert pald.once() == 0
        pald.scores({"n1:1": 0.7, "n3:1": 0.7, "n4:1": 0.8})
        pald.start()
        job = cluster.submit("-N2", "--gres=gpu:1", "--comment=app:bert")
        cluster.wait_state(job, "RUNNING")
        (pin,) = pald.intents(job, EditKind.PIN)
        assert (pin.outcome, pin_of(pin).nodes, pin_of(pin).slots) == (Outcome.DONE, ("n3", "n4"), (1,))
        assert pald.intents(job, EditKind.UNPIN) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
@pytest.mark.slurm("26.05")
def test_jobs_get_at_a_site_what_they_get_there_without_pald(
    make_minicluster: Make, tmp_path: Path, release: str, part: int
) -> None:
    """Three sites of the table, others at the next commit."""
    names = sorted(SITES)
    site = SITES[names[(3 * turn(len(names)) + part) % len(names)]]
    cluster = make_minicluster("--nodes=8", "--gpus=4", *site.options)
    alone, beside, _ = compare(cluster, site, tmp_path / "pald", "pyslurm" if release == "26.05" else "cli")
    assert list(differences(alone, beside)) == [], site.name
