"""Every shape of job gets what it gets without pald (P2): the rows of tests/slurm/shapes. And what else is odd."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, mark_of
from tests.slurm.shapes.__main__ import run
from tests.slurm.shapes.compare import THIRDS, backend_of_turn, backends_of
from tests.slurm.shapes.options import RELEASES, listed
from tests.turns import turn


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_each_shape_of_job_gets_what_it_gets_without_pald(release: str) -> None:
    """A third of the rows through one backend, by turns."""
    print(f"PAL_TEST_TURN={turn(2 * THIRDS)}")
    verdicts = run(release, turn(THIRDS), [backend_of_turn(release)])
    assert [verdict for verdict in verdicts if verdict.differs] == []


@pytest.mark.slow
@pytest.mark.slurm("26.05")
def test_so_they_do_through_the_other_backend(release: str) -> None:
    (other,) = set(backends_of(release)) - {backend_of_turn(release)}
    assert [verdict for verdict in run(release, turn(THIRDS), [other]) if verdict.differs] == []


@pytest.mark.slow
@pytest.mark.parametrize("later", range(1, THIRDS))
def test_so_do_the_shapes_of_the_other_thirds(release: str, later: int) -> None:
    verdicts = run(release, (turn(THIRDS) + later) % THIRDS, backends_of(release))
    assert [verdict for verdict in verdicts if verdict.differs] == []


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_the_rows_know_every_option_that_the_commands_know(minicluster: Minicluster) -> None:
    ours = {"--pal-app", "--pal-move", "--pal-same", "--pal-dearer"}
    for command in ("sbatch", "salloc", "srun"):
        pages = ours.union(*(listed(release, command) for release in RELEASES))  # 26.05 tells of --power, which is gone
        told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", minicluster.client(command, "--help")))
        assert told - pages == set(), command


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_jobs_that_can_not_be_pinned_keep_no_gpu_from_others(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        odd = [minicluster.submit("--gpus=8", "--gpus-per-node=4") for _ in range(5)]  # four fill the cluster
        for job in odd[:4]:
            minicluster.wait_state(job, "RUNNING")
        behind = minicluster.submit("--gres=gpu:2")
        pald.wait_cycle()
        assert (minicluster.state(odd[4]), minicluster.state(behind)) == ("PENDING", "PENDING")
        minicluster.client("scancel", str(odd[0]))
        minicluster.wait_state(odd[4], "RUNNING")
        minicluster.client("scancel", str(odd[1]))
        minicluster.wait_state(behind, "RUNNING")
        assert {intent.outcome for intent in pald.ledger()} == {Outcome.DONE}
        assert {intent.edit.kind for job in odd for intent in pald.intents(job)} <= {EditKind.PLAIN, EditKind.RENEW}
        why = pald.palctl("why", str(odd[0]))
        assert "It is released as it is" in why and "asks in a way that can't be pinned" in why
        assert "placed on" not in why and "pinned to" not in why


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_slot_that_a_user_names_between_intent_and_edit_is_his_word(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start(env={"PAL_CRASH_AT": "after-intent:1:STOP"})
        job = minicluster.submit("--gres=gpu:1")
        wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), "the intent is on disk")
        minicluster.client("scontrol", "update", f"jobid={job}", "TresPerNode=gres/gpu:g2:1")
        pald.send(signal.SIGCONT)
        minicluster.wait_state(job, "RUNNING")
        assert list(minicluster.gpu_indices(job).values()) == ["2"]
        pin, plain_start = pald.intents(job)
        assert (pin.outcome, pin.said) == (Outcome.REFUSED, "not sent: somebody edited it since it was looked at")
        assert (plain_start.edit.kind, plain_start.outcome) == (EditKind.PLAIN, Outcome.DONE)


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_pin_that_is_refused_lets_the_job_go_in_the_same_cycle(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    # Without disable_job_shrink no pin is let pass.
    cluster = make_minicluster("--nodes", "1", "--set", "SchedulerParameters=batch_sched_delay=0,sched_interval=2")
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        job = cluster.submit("--gres=gpu:1")
        assert "released plain 1" in pald.wait_said("refused by the guard")
        cluster.wait_state(job, "RUNNING")
        assert [(i.edit.kind, i.outcome) for i in pald.intents(job)] == [(EditKind.PLAIN, Outcome.DONE)]
        why = pald.palctl("why", str(job))
        assert "It is released as it is" in why and "A pin of it was refused" in why and "It is placed" not in why


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_slots_and_nodes_that_a_user_names_later_are_his_word(minicluster: Minicluster, tmp_path: Path) -> None:
    # He has to wait for that slot: nobody may take his words for a pin of ours meanwhile.
    blocker = minicluster.submit("--gres=gpu:g2:1", "-w", "n3")
    with minicluster.leases():
        job = minicluster.submit("--gres=gpu:1")
    assert mark_of(minicluster, job)
    minicluster.client("scontrol", "update", f"jobid={job}", "TresPerNode=gres/gpu:g2:1", "ReqNodeList=n3")
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        wait_for(lambda: bool(pald.intents(job, EditKind.PLAIN)), "it is let go")
        for _ in range(3):
            pald.wait_cycle()
        fields = minicluster.fields(job)
        assert (fields["ReqNodeList"], fields["TresPerNode"]) == ("n3", "gres/gpu:g2:1")
        minicluster.client("scancel", str(blocker))
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n3": "2"}
        assert {intent.edit.kind for intent in pald.intents(job)} == {EditKind.PLAIN}


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_after_a_restart_of_slurmctld_jobs_are_pinned_once(minicluster: Minicluster, tmp_path: Path) -> None:
    shapes = (
        ("-n2", "--gpus-per-task=1"),
        ("-n4", "--gpus=4"),
        ("--gpus=2", "--cpus-per-gpu=2"),
        ("-N1-2", "--gpus=2"),
    )
    with minicluster.leases():
        jobs = [minicluster.submit(*options) for options in shapes]
    minicluster.restart()
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        for job in jobs:
            minicluster.wait_state(job, "RUNNING")
            wait_for(lambda job=job: all(i.outcome for i in pald.intents(job)), "it is known")  # type: ignore[misc]
            starts = [(i.edit.kind, i.outcome) for i in pald.intents(job) if i.edit.kind is not EditKind.RENEW]
            assert starts == [(EditKind.PIN, Outcome.DONE)], starts
