"""An edit that turns out bad is undone; slurmctld away, slow or restarted costs time and nothing else (P4, P8)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, pin_by_hand, pin_of, plain


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
@pytest.mark.parametrize("fault", ["GPUs taken", "node drained"])
def test_what_happens_between_plan_and_edit_undoes_the_pin_and_the_job_runs_elsewhere(
    minicluster: Minicluster, tmp_path: Path, fault: str
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({f"n8:{slot}": 0.5 for slot in range(4)})
        pald.start(env={"PAL_CRASH_AT": "after-intent:1:STOP"})
        job = minicluster.submit("--gres=gpu:4")
        wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), "the intent is on disk")
        assert pin_of(pald.intents(job)[0]).nodes == ("n8",)
        if fault == "GPUs taken":
            with plain(minicluster):
                thief = minicluster.submit("--gres=gpu:1", "-w", "n8")
            minicluster.wait_state(thief, "RUNNING")
        else:
            minicluster.drain("n8")
        pald.send(signal.SIGCONT)
        minicluster.wait_state(job, "RUNNING", within=60)
        assert "n8" not in minicluster.gpu_indices(job)
        pin, undo = pald.intents(job)[:2]
        assert (pin.outcome, undo.edit.kind) == (Outcome.DONE, EditKind.UNPIN)
        assert "taken back" in pald.palctl("why", str(job)) or "given back" in pald.palctl("why", str(job))


@pytest.mark.slurm("24.11", slow=("26.05",))
def test_a_pin_that_slurm_calls_bad_constraints_is_undone(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        job = minicluster.submit("--gres=gpu:1")
        pin_by_hand(minicluster, [job], "n8", (3,))
        free = minicluster.submit("--gres=gpu:1")
        minicluster.client("scontrol", "update", f"jobid={free}", "TresPerNode=gres/gpu:g2:3", "ReqNodeList=n7")
        minicluster.client("scontrol", "update", f"jobid={free}", "StartTime=now")  # g2 is there only once
        wait_for(lambda: minicluster.fields(free)["Reason"] == "BadConstraints", "Slurm says BadConstraints")
        pald.start()
        minicluster.wait_state(free, "RUNNING")
        assert pald.intents(free)[0].edit.kind is EditKind.UNPIN
        minicluster.wait_state(job, "RUNNING")


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_slurmctld_restarted_in_mid_run_costs_no_job(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        jobs = [minicluster.submit("--gres=gpu:4", wrap="sleep 2") for _ in range(20)]
        minicluster.wait_state(jobs[0], "RUNNING")
        with minicluster.stopped():
            pald.wait_said("slurmctld|Slurm|connect|controller")
        wait_for(lambda: minicluster.client("squeue", "-h") == "", "no job is left", 90)
        assert finished(minicluster) >= set(jobs)
        assert pald.process is not None and pald.process.poll() is None
        assert [i for i in pald.ledger() if i.outcome in (None, Outcome.UNKNOWN)] == []
        assert all(pald.intents(job, EditKind.PIN) for job in jobs[-3:])


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_an_edit_that_gets_no_answer_is_judged_by_what_stands_later(minicluster: Minicluster, tmp_path: Path) -> None:
    """slurmctld hangs just when the edit arrives; what it does with it afterwards, nobody told us."""
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path, {"cluster.timeout_s": 2}) as pald:
        pald.start(env={"PAL_CRASH_AT": "after-intent:1:STOP"})
        job = minicluster.submit("--gres=gpu:2")
        wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), "the intent is on disk")
        with minicluster.frozen():
            pald.mark()
            pald.send(signal.SIGCONT)
            pald.wait_said("no answer|not answer|timed out|hangs")
            assert pald.intents(job)[0].outcome is Outcome.UNKNOWN
        minicluster.wait_state(job, "RUNNING", within=60)
        wait_for(lambda: all(intent.closed for intent in pald.intents(job)), "pald knows what became of it")
        assert 1 <= len([nodes for nodes in journal.node_lists(job) if nodes]) <= 2


@pytest.mark.slurm("26.05")
def test_a_hanging_slurmctld_is_told_and_work_goes_on_when_it_answers(minicluster: Minicluster, tmp_path: Path) -> None:
    """How much less it is asked meanwhile, the unit tests of the pace say."""
    with Pald(minicluster, tmp_path, {"cluster.timeout_s": 3, "cycle.interval_s": 0.5}) as pald:
        pald.start()
        with minicluster.frozen():
            pald.mark()
            pald.wait_said("no answer")
        job = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(job, "RUNNING", within=60)
        assert len(pald.intents(job, EditKind.PIN)) == 1


def finished(cluster: Minicluster) -> set[int]:
    return {int(word) for word in cluster.client("squeue", "-h", "-t", "CD", "-o", "%A").split()}
