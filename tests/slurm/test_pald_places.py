"""pald places jobs where it says, with the precision of each release, and within the user's own words (P2)."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome, Snapshot
from tests.slurm.backends import backend_of
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of, pin_of


@pytest.mark.slurm("24.11", "26.05")
def test_a_job_gets_the_very_slots_that_palctl_why_names(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0  # makes the database and learns the nodes
        pald.scores({"n6:1": 0.7, "n6:3": 0.7})
        pald.start()
        job = minicluster.submit("--gres=gpu:2", "--comment=app:resnet")
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n6": "1,3"}
        wait_for(lambda: "It got" in pald.palctl("why", str(job)), "pald notes what the job got")
        why = pald.palctl("why", str(job))
        assert "pinned to n6:g1,g3" in why
        assert re.search(r"It got n6:g1,g3, as pinned", why), why


@pytest.mark.slurm("22.05")
def test_without_exact_slots_the_node_is_chosen_on_which_slurm_itself_takes_the_right_gpus(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    # The best two GPUs of all are n6:g2,g3, but Slurm would take the lowest free ones there; n4's are the second best.
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({"n6:2": 0.6, "n6:3": 0.6, "n4:0": 0.7, "n4:1": 0.7})
        pald.start()
        job = minicluster.submit("--gres=gpu:2")
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n4": "0,1"}
        (pin,) = pald.intents(job, EditKind.PIN)
        assert (pin_of(pin).nodes, pin_of(pin).slots) == (("n4",), None)
        assert minicluster.fields(job)["TresPerNode"] == "gres:gpu:2"  # the user's own words stay as they were
        wait_for(lambda: "It got n4:g0,g1, as pinned" in pald.palctl("why", str(job)), "pald looks what the job got")


@pytest.fixture(scope="module")
def varied(release: str) -> Iterator[Minicluster]:
    """Two models, racks of two nodes, and partitions that overlap with none."""
    cluster = Minicluster.up(
        f"t{os.getpid()}-varied-{release}", release, "--nodes", "6", "--models", "a100=4,v100=2", "--rack-size", "2",
        "--partitions", "early=n[1-2],late=n[5-6]",
    )  # fmt: skip
    yield cluster
    cluster.down()


WORDS = {
    "--nodelist": ("--gres=gpu:1", "-w", "n3"),
    "--exclude": ("--gres=gpu:1", "-x", "n[1-2,4-6]"),
    "--constraint": ("--gres=gpu:1", "-C", "rack2&a100"),
    "a model": ("--gres=gpu:v100:1",),
    "whole nodes": ("-N2", "--gpus-per-node=4"),
    "three": ("--gpus=3",),
    "per task": ("-n2", "--gpus-per-task=1"),
}


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_every_job_ends_where_the_users_own_words_allow(varied: Minicluster, tmp_path: Path) -> None:
    """Scores say that n1 is best for everything; the users say otherwise."""
    varied.reset()
    with Pald(varied, tmp_path, {"cluster.models": ["a100", "v100"]}) as pald:
        assert pald.once() == 0
        pald.scores({f"n1:{slot}": 0.5 for slot in range(4)})
        pald.start()
        jobs = {name: varied.submit(*options) for name, options in WORDS.items()}
        assert all(mark_of(varied, job) for job in jobs.values())
        for job in jobs.values():
            varied.wait_state(job, "RUNNING")
        got = {name: varied.gpu_indices(job) for name, job in jobs.items()}
        assert set(got["--nodelist"]) == {"n3"}
        assert set(got["--exclude"]) == {"n3"}
        assert set(got["--constraint"]) <= {"n3", "n4"}
        assert set(got["a model"]) <= {"n5", "n6"}
        devices = {job.id: sum(map(len, job.gpus)) for job in snapshot(varied).running}
        assert [devices[jobs[name]] for name in ("whole nodes", "three", "per task")] == [8, 3, 2]
        assert pald.intents(jobs["--nodelist"], EditKind.PIN) == []  # their node list, not ours
        pinned = {name for name, job in jobs.items() if pald.intents(job, EditKind.PIN)}
        assert pinned == set(WORDS) - {"--nodelist"}


HANDS_OFF = {
    "pal:off": ("--gres=gpu:1", "--comment=pal:off"),
    "whole node": ("--gres=gpu:1", "--exclusive"),
    "heterogeneous": ("--gres=gpu:1", ":", "--gres=gpu:1"),
}
NEVER_LEASED = {
    "--reservation": ("--gres=gpu:1", "--reservation=mine"),
    "--deadline": ("--gres=gpu:1", "--deadline=now+2hours", "-t", "5"),
    "no GPU": ("-n1",),
}


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_jobs_that_can_not_or_will_not_be_pinned_run_as_slurm_likes(varied: Minicluster, tmp_path: Path) -> None:
    varied.reset()
    varied.client(
        "scontrol", "create", "reservation", "ReservationName=mine", "StartTime=now", "Duration=60", "Nodes=n6",
        "Users=root",
    )  # fmt: skip
    with Pald(varied, tmp_path) as pald:
        pald.start()
        released = {name: varied.submit(*options) for name, options in HANDS_OFF.items()}
        free = {name: varied.submit(*options) for name, options in NEVER_LEASED.items()}
        own_begin = varied.submit("--gres=gpu:1", "--begin=now+1hour")
        for job in (*released.values(), *free.values()):
            wait_running(varied, job)
        assert set(varied.gpu_indices(free["--reservation"])) == {"n6"}
        pald.wait_cycle()
        assert varied.state(own_begin) == "PENDING"
        for name, job in free.items():
            assert (name, mark_of(varied, job), pald.intents(job)) == (name, "", [])
        assert pald.intents(own_begin) == []
        for name, job in released.items():
            kinds = {intent.edit.kind for intent in pald.intents(job)}
            assert kinds == {EditKind.PLAIN}, (name, kinds)


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_a_job_of_several_partitions_gets_the_one_of_its_nodes_and_all_of_them_back(
    varied: Minicluster, tmp_path: Path
) -> None:
    varied.reset()
    journal = Journal(varied)
    with Pald(varied, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({"n6:0": 0.5, "n6:1": 0.5})
        pald.start(env={"PAL_CRASH_AT": "after-intent:2:STOP"})
        job = varied.submit("--gres=gpu:1", "-p", "early,late")
        varied.wait_state(job, "RUNNING")
        assert varied.gpu_indices(job) == {"n6": "0"}
        assert varied.fields(job)["Partition"] == "late"
        assert pin_of(pald.intents(job, EditKind.PIN)[0]).partition == "late"
        assert f"setting partition to late for JobId={job}\n" in journal.text()  # by the pin, not by the start
        # The same again on n6, which fails between intent and edit: all its partitions come back, and it runs in one.
        again = varied.submit("--gres=gpu:1", "-p", "late,early")
        wait_for(lambda: bool(pald.intents(again, EditKind.PIN)), "the intent is on disk")
        assert pin_of(pald.intents(again)[0]).nodes[0] in ("n5", "n6")
        varied.client("scontrol", "update", "nodename=n[5-6]", "state=drain", "reason=test")
        pald.send(signal.SIGCONT)
        done = (Outcome.DONE, Outcome.PARTIAL)  # 22.05 can't take the slots back
        wait_for(
            lambda: any(i.outcome in done for i in pald.intents(again, EditKind.UNPIN)), "the pin is taken back", 60
        )
        assert varied.fields(again)["Partition"] == "late,early"
        varied.wait_state(again, "RUNNING")
        assert set(varied.gpu_indices(again)) <= {"n1", "n2"}


def wait_running(cluster: Minicluster, job: int) -> None:
    """All components, where it has several."""

    def runs() -> bool:
        states = set(cluster.client("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T").split())
        return states == {"RUNNING"}

    wait_for(runs, f"{cluster.release}: job {job} runs")


def snapshot(cluster: Minicluster) -> Snapshot:
    with backend_of(cluster, "cli") as slurm:
        return slurm.snapshot()


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_each_task_of_an_array_is_placed_on_its_own(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        array = minicluster.submit("--gres=gpu:1", "--array=1-20,30")
        wait_for(lambda: len(tasks(minicluster, array, "R")) == 21, "all tasks run")
        assert tasks(minicluster, array, "R") == [*range(1, 21), 30]
        pins = pald.intents(array, EditKind.PIN)
        assert sorted(pin.edit.task or 0 for pin in pins) == [*range(1, 21), 30]  # one pin each
        assert all(len(pin_of(pin).nodes) == 1 for pin in pins)


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_no_more_tasks_of_an_array_are_pinned_than_its_limit_lets_run(minicluster: Minicluster, tmp_path: Path) -> None:
    most = 0

    def all_done() -> bool:
        nonlocal most
        most = max(most, len(tasks(minicluster, array, "R")))
        return len(tasks(minicluster, array, "CD")) == 20

    lua_settings(minicluster, lease="60")  # a busy machine may keep pald waiting
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        array = minicluster.submit("--gres=gpu:1", "--array=0-19%3", wrap="sleep 0.2")
        wait_for(all_done, "all tasks done", 90)
        assert 1 <= most <= 3
        pins = pald.intents(array, EditKind.PIN)
        assert sorted(pin.edit.task for pin in pins if pin.edit.task is not None) == list(range(20))
        assert {intent.edit.kind for intent in pald.ledger()} <= {EditKind.PIN, EditKind.RENEW}  # none was undone


def tasks(cluster: Minicluster, array: int, states: str) -> list[int]:
    """Indices of the tasks in these states."""
    told = cluster.client("squeue", "-h", "-r", "-j", str(array), "-t", states, "-o", "%K").split()
    return sorted(map(int, told))


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_a_dependent_job_keeps_its_lease_until_it_is_eligible_and_is_placed_then(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    lua_settings(minicluster, lease="6")
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        first = minicluster.submit("--gres=gpu:1", wrap="sleep 9")
        second = minicluster.submit("--gres=gpu:1", f"--dependency=afterok:{first}")
        assert mark_of(minicluster, second)
        minicluster.wait_state(first, "COMPLETED")
        minicluster.wait_state(second, "RUNNING")
        assert len(pald.intents(second, EditKind.PIN)) == 1
