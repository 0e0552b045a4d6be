"""What every backend promises of excluded nodes: a user's own list is kept, and can be told from ours by itself."""

from __future__ import annotations

import pytest

from pal_slurm.model import Edit, EditResult, Exclude, Excluded, Include, Outcome
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import LATER, ThroughCli, ThroughPyslurm
from tests.slurm.minicluster import Minicluster

OWN = ("", "n2", "n[1-3]", "n7,n2,n2", "n1,n1")  # the last two as nobody but scontrol writes them


class Exclusions:
    @pytest.mark.parametrize("own", OWN)
    def test_nodes_are_excluded_beside_the_user_s_own_and_his_list_comes_back_as_he_wrote_it(
        self, slurm: Slurm, minicluster: Minicluster, own: str
    ) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:2", *([f"--exclude={own}"] if own else []))
        if own:
            minicluster.client("scontrol", "update", f"JobId={job}", f"ExcNodeList={own}")
        before = slurm.jobs([job])[job]
        assert before.excluded is None
        result = one(slurm, Exclude(job, nodes=("n8", "n5", "n6")))
        assert result.outcome is Outcome.DONE, result.said
        for found in (slurm.jobs([job])[job], next(j for j in slurm.snapshot().pending if j.id == job)):
            assert found.excluded == Excluded(frozenset({"n5", "n6", "n8"}), own)
            assert found.eligible == before.eligible and found.request == before.request
        assert one(slurm, Exclude(job, nodes=("n5",))).outcome is Outcome.DONE
        assert slurm.jobs([job])[job].excluded == Excluded(frozenset({"n5"}), own)
        assert one(slurm, Include(job)).outcome is Outcome.DONE
        after = slurm.jobs([job])[job]
        assert after.excluded is None and after.excluded_nodes == before.excluded_nodes

    def test_a_job_starts_on_none_of_them(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1", "--exclude=n1")
        shut = tuple(name for name in minicluster.nodes if name not in ("n1", "n7"))
        assert one(slurm, Exclude(job, nodes=shut)).outcome is Outcome.DONE
        minicluster.client("scontrol", "update", f"JobId={job}", "StartTime=now")
        minicluster.wait_state(job, "RUNNING")
        assert slurm.jobs([job])[job].nodes == ("n7",)

    def test_whoever_writes_his_own_list_over_it_has_the_last_word(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1")
        one(slurm, Exclude(job, nodes=("n3", "n4")))
        seen = slurm.jobs([job])[job]
        minicluster.client("scontrol", "update", f"JobId={job}", "ExcNodeList=n[3-5]")
        assert slurm.jobs([job])[job].excluded is None
        assert one(slurm, Include(job)).outcome is Outcome.REFUSED
        assert one(slurm, Exclude(job, nodes=("n3",), seen=seen)).outcome is Outcome.REFUSED
        assert slurm.jobs([job])[job].excluded_nodes == "n[3-5]"
        minicluster.client("scontrol", "update", f"JobId={job}", "ExcNodeList=n3,n[3-4],n3,n5")  # he only added n5
        assert slurm.jobs([job])[job].excluded == Excluded(frozenset({"n3", "n4"}), "n5")

    def test_what_would_hurt_or_can_not_be_kept_is_refused_and_changes_nothing(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        array = minicluster.submit(LATER, "--array=1-3", "--gres=gpu:1")
        named = minicluster.submit(LATER, "--nodelist=n1", "--gres=gpu:1")
        plain = minicluster.submit(LATER, "--gres=gpu:1")
        jobs = (array, named, plain)
        before = [(job.excluded_nodes, job.request) for job in slurm.jobs(jobs).values()]
        edits: list[Edit] = [
            Exclude(array, nodes=("n1",)), Exclude(array, 2, nodes=("n1",)), Exclude(named, nodes=("n2",)),
            Exclude(plain, nodes=()), Exclude(plain, nodes=("nowhere",)), Exclude(plain, nodes=("n1 Nice=1",)),
            Exclude(plain, nodes=tuple(f"n{i}x" for i in range(300))), Include(plain),
        ]  # fmt: skip
        for edit in edits:
            assert one(slurm, edit).outcome is Outcome.REFUSED, edit
        assert [(job.excluded_nodes, job.request) for job in slurm.jobs(jobs).values()] == before

    def test_a_running_job_s_list_is_left_alone(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(job, "RUNNING")
        assert one(slurm, Exclude(job, nodes=("n8",))).outcome is Outcome.STARTED
        assert one(slurm, Include(job)).outcome is Outcome.STARTED


class TestExclusionsThroughCli(ThroughCli, Exclusions):
    pass


@pytest.mark.slurm("26.05")
class TestExclusionsThroughPyslurm(ThroughPyslurm, Exclusions):
    pass


def one(slurm: Slurm, edit: Edit) -> EditResult:
    (result,) = slurm.apply([edit])
    return result
