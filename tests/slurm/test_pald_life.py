"""pald's own life: pause, undo, reload, a clean end, one cycle, a dry run, and what it tells systemd."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of

RELEASE = pytest.mark.slurm("26.05")


def one_that_waits(pald: Pald) -> tuple[int, tuple[str, ...]]:
    """A leased job for which there is no room, and its request as Slurm shows it."""
    pald.cluster.drain("n8")
    job = pald.cluster.submit("-N8", "--gpus-per-node=2")
    pald.wait_cycle()
    wait_for(lambda: reason_of(pald.cluster, job) in ("BeginTime", "None"), "Slurm leaves it to its lease")
    return job, request_of(pald.cluster, job)


def wait_until_slurms(cluster: Minicluster, job: int) -> None:
    wait_for(lambda: reason_of(cluster, job) not in ("BeginTime", "None"), "Slurm itself looks at it")


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_paused_pald_gives_all_jobs_back_as_they_were_and_takes_no_more(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    lua_settings(minicluster, lease="600")  # no lease ends by itself
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        waits, before = one_that_waits(pald)
        pald.palctl("pause", "--reason", "maintenance")
        pald.wait_said("paused: maintenance")
        wait_until_slurms(minicluster, waits)
        assert request_of(minicluster, waits) == before
        assert re.search(r"PAUSED since [0-9: -]+: maintenance \(by \w+\)", pald.palctl("status"))
        runs = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(runs, "RUNNING")
        assert pald.intents(runs, EditKind.PIN) == []
        pald.palctl("resume")
        pald.wait_cycle()
        placed = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(placed, "RUNNING")
        assert len(pald.intents(placed, EditKind.PIN)) == 1


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
@pytest.mark.parametrize("actuator", ["shadow", "exclude"])
def test_who_places_no_more_after_a_reload_gives_back_what_he_held(
    minicluster: Minicluster, tmp_path: Path, actuator: str
) -> None:
    lua_settings(minicluster, lease="600")  # no lease ends by itself
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        waits, before = one_that_waits(pald)
        pald.configure({"actuator": actuator})
        pald.mark()
        pald.send(signal.SIGHUP)
        pald.wait_said(f"actuator is {actuator} now: all that we held is given back")
        wait_until_slurms(minicluster, waits)
        assert request_of(minicluster, waits) == before
        runs = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(runs, "RUNNING")
        assert pald.intents(runs, EditKind.PIN) == []


@RELEASE
def test_undo_frees_the_queue_also_with_a_pal_yaml_that_pald_refuses(minicluster: Minicluster, tmp_path: Path) -> None:
    """`systemctl restart pald` after a slip: its ExecStopPost has nothing but that file."""
    lua_settings(minicluster, lease="600")
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        waits, _ = one_that_waits(pald)
        with pald.config.open("a") as text:
            text.write("surprise: 1\n")
        assert pald.stop() == 0
        assert not pald.gives_leases()
        done = pald.run_palctl("undo", "--all")
        assert (done.returncode, "1 of 1 jobs are as they were" in done.stdout) == (0, True), done.stderr
        assert "surprise: no such key" in done.stderr
        assert pald.once() == 78
        wait_until_slurms(minicluster, waits)


def request_of(cluster: Minicluster, job: int) -> tuple[str, ...]:
    fields = cluster.fields(job)
    return tuple(fields.get(name, "") for name in ("TresPerNode", "TresPerJob", "ReqNodeList", "NumNodes", "Partition"))


def reason_of(cluster: Minicluster, job: int) -> str:
    return cluster.client("squeue", "-h", "-j", str(job), "-o", "%r").strip()


@RELEASE
def test_a_bad_configuration_is_refused_at_reload_and_a_good_one_taken(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        good = pald.config.read_text()
        for bad, said in (
            (good.replace("actuator: pin", "actuator: pun"), "actuator"),
            (good + "surprise: 1\n", "surprise"),
            ("{", "kept the old configuration"),
            (good.replace(str(tmp_path), "/elsewhere", 1), "restart"),
        ):
            pald.config.write_text(bad)
            pald.mark()
            pald.send(signal.SIGHUP)
            assert said in pald.wait_said("kept the old configuration") or said in pald.since_mark()
        pald.config.write_text(good)
        pald.wait_told("was refused at the last reload", "status")
        job = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(job, "RUNNING")
        assert pald.intents(job, EditKind.PIN)
        pald.configure({"policy.name": "packed"})
        pald.mark()
        pald.send(signal.SIGHUP)
        pald.wait_said("reloaded .*policy packed")
        assert pald.stop() == 0
        assert pald.said().rstrip().endswith("stopped")


@RELEASE
def test_sigterm_ends_it_at_once_and_lets_another_lead_at_once(minicluster: Minicluster, tmp_path: Path) -> None:
    settings = {"cycle.interval_s": 10, "leader.ttl_s": 300}
    with Pald(minicluster, tmp_path, settings) as pald:
        pald.start()
        assert pald.stop() == 0
        pald.configure({"leader.lock_file": str(tmp_path / "other.lock")})  # as from another host
        assert pald.once() == 0


@RELEASE
def test_once_is_one_cycle_and_a_dry_run_changes_nothing_in_slurm(minicluster: Minicluster, tmp_path: Path) -> None:
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        jobs = [minicluster.submit("--gres=gpu:2", "--comment=app:resnet") for _ in range(3)]
        assert all(mark_of(minicluster, job) for job in jobs)
        before = requests(minicluster, jobs)
        assert pald.once("--dry-run") == 0
        assert "3 pending, 3 leased; would pin 3" in pald.said()
        assert requests(minicluster, jobs) == before
        assert (journal.edited(), pald.ledger()) == (set(), [])
        assert pald.once() == 0
        assert pald.said().splitlines()[-1].endswith("3 pending, 3 leased; pinned 3")
        for job in jobs:
            minicluster.wait_state(job, "RUNNING")


def requests(cluster: Minicluster, jobs: Iterable[int]) -> str:
    """All that scontrol shows of these jobs, but what Slurm's own passes change from second to second."""
    text = "".join(cluster.client("scontrol", "show", "job", "-d", str(job)) for job in jobs)
    return re.sub(r"(AccrueTime|LastSchedEval|Reason|Scheduler|SecsPreSuspend)=\S*", "", text)


@RELEASE
def test_the_shadow_actuator_decides_writes_down_and_changes_nothing(minicluster: Minicluster, tmp_path: Path) -> None:
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path, {"actuator": "shadow"}) as pald, minicluster.leases():
        pald.start()
        job = minicluster.submit("--gres=gpu:1")
        pald.wait_said("1 leased; would pin 1")
        assert "It is placed on" in pald.palctl("why", str(job)) or "would" in pald.palctl("why", str(job))
        assert (journal.edited(), pald.ledger()) == (set(), [])


@RELEASE
def test_new_jobs_wait_as_long_as_pal_yaml_says_unless_pal_lua_conf_says_otherwise(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    def leased_for() -> int:
        job = minicluster.submit("--gres=gpu:1")
        end = re.match(r"pal1\{b=(\d+)", mark_of(minicluster, job))
        assert end is not None
        submit = time.strptime(minicluster.fields(job)["SubmitTime"], "%Y-%m-%dT%H:%M:%S")
        return int(end[1]) - int(time.mktime(submit))

    with Pald(minicluster, tmp_path, {"lease.length_s": 300}) as pald:
        pald.start()
        wait_for(lambda: pald.gives_leases() and "\nlease 300\n" in pald.alive.read_text(), "job_submit.lua is told")
        # The second may turn between job_submit and the record; on a busy machine looks may be far apart, not so far.
        assert 299 <= leased_for() <= 300
        pald.configure({"lease.length_s": 600})
        pald.send(signal.SIGHUP)
        wait_for(lambda: "\nlease 600\n" in pald.alive.read_text(), "job_submit.lua is told")
        assert 599 <= leased_for() <= 600
        lua_settings(minicluster, lease="30")
        assert 29 <= leased_for() <= 30


@RELEASE
def test_systemd_is_told_ready_status_watchdog_and_stopping(minicluster: Minicluster, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        Pald(minicluster, tmp_path, {"cluster.timeout_s": 2}) as pald,
    ):
        systemd.bind(str(path))
        systemd.settimeout(30)
        heard: list[str] = []

        def hears(word: str) -> Callable[[], bool]:
            def heard_it() -> bool:
                heard.append(systemd.recv(4096).decode())
                return word in heard[-1]

            return heard_it

        pald.spawn(env={"NOTIFY_SOCKET": str(path)})
        wait_for(hears("READY=1"), "READY=1")
        assert "WATCHDOG=1" not in "".join(heard)
        wait_for(hears("WATCHDOG=1"), "WATCHDOG=1")
        assert "STATUS=0 pending, 0 leased" in heard[-1]
        with minicluster.frozen():  # trouble with Slurm is no reason to be restarted
            wait_for(hears("no answer"), "its status tells the trouble", 60)
            assert "WATCHDOG=1" in heard[-1]
        pald.send(signal.SIGTERM)
        wait_for(hears("STOPPING=1"), "STOPPING=1", 60)
        assert pald.wait_end() == 0
