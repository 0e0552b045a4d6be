"""The nightly run, step by step, on a cluster in memory: windows, tries, giving way. Real Slurm: tests/slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pal_slurm.config.profile import ProfileSection
from pal_slurm.errors import BadInput, SlurmRefused
from pal_slurm.model import Job, Reservation, Shape, Snapshot, Waits, homogeneous
from pal_slurm.nightly.nodes import idle, in_the_way
from pal_slurm.nightly.run import ARRIVES_S, WAITS_S, ProfileRun, Wanted, batch_script
from pal_slurm.nightly.window import Window, hours
from pal_slurm.slurm.commands.batch import OurJob, Terms
from pal_slurm.store import GpuRepo, Sighting, Store
from pal_slurm.store.learned import CurrentScore, LearnedRepo
from tests import builders
from tests.unit.spools import NIGHT, document, fleet, here, put

GPUS, CPUS = 4, 32


@dataclass
class Room:
    """A cluster in memory: which nodes are taken, whose jobs wait; the part of sbatch and of squeue too."""

    nodes: tuple[str, ...] = ("n1", "n2", "n3", "n4")
    taken: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)  # our jobs there do not start
    waiting: list[Job] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    jobs: dict[int, OurJob] = field(default_factory=dict)
    submitted: list[tuple[str, int]] = field(default_factory=list)
    terms: list[Terms] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    now: float = NIGHT

    # what ProfileRun asks of Slurm

    def snapshot(self) -> Snapshot:
        used = {job.node for job in self.jobs.values() if job.running} | self.taken
        free = np.array([name not in used for name in self.nodes])
        whole = homogeneous(len(self.nodes), GPUS, cpus=CPUS, mem_mb=1000)
        cluster = replace(
            whole, node_names=self.nodes, node_ok=np.array([name not in self.down for name in self.nodes]), slots=False,
            cpus_free=whole.cpus * free, mem_free_mb=whole.mem_mb * free, gpu_free=whole.gpu_free & free[:, None],
        )  # fmt: skip
        return builders.snapshot(*self.waiting, cluster=cluster, now=self.now, windows=self.reservations)

    def submit(self, node: str, script: str, minutes: int, terms: Terms) -> int:
        if node in self.refused:
            raise SlurmRefused(f"sbatch on {node}: no")
        number = 100 + len(self.submitted)
        self.submitted.append((node, minutes))
        self.terms.append(terms)
        self.jobs[number] = OurJob(number, node, node not in self.stuck)
        return number

    def ours(self) -> list[OurJob]:
        return list(self.jobs.values())

    def cancel(self, ids: list[int]) -> None:
        for number in ids:
            self.jobs.pop(number)
            self.cancelled.append(number)

    def finish(self, spool: Path | None = None) -> None:
        """All our running jobs end; with a spool each leaves its document."""
        for number, job in list(self.jobs.items()):
            del self.jobs[number]
            if spool:
                put(spool, document(job.node, fleet(4), self.now, rounds=1))


def waiting_job(number: int = 1, nodes: int = 1, gpus: int = 1, **more: Any) -> Job:
    shape = Shape(min_nodes=nodes, max_nodes=nodes, gpus_per_node=gpus)
    facts: dict[str, Any] = {"partitions": ("gpu",), "shape": shape, "why": Waits.ROOM}
    return builders.waiting(number, **(facts | more))


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "shared" / "spool"  # the database lies elsewhere
    path.mkdir(parents=True)
    return path


def run_of(
    room: Room, store: Store, spool: Path, window: Window | None = None, parallel: int = 10, give_way: bool = True
) -> ProfileRun:
    profile = ProfileSection(spool=str(spool), minutes=30, give_way=give_way, logs=str(spool.parent / "logs"))
    config = msgspec.structs.replace(here(spool), profile=profile)
    wanted = Wanted(None, parallel, NIGHT - 10, window)
    return ProfileRun(room, room, store, config, wanted)  # type: ignore[arg-type]


def test_all_idle_nodes_are_done_so_many_at_a_time(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool, parallel=3)
    assert len(work.step(NIGHT).running) == 3
    assert len(work.step(NIGHT + 1).running) == 3
    room.finish(spool)
    assert work.step(NIGHT + 2).running == ("n4",)
    room.finish(spool)
    last = work.step(NIGHT + 3)
    assert (last.done, last.finished) == (room.nodes, True)


def test_nodes_whose_scores_wait_for_a_witness_come_first(room: Room, store: Store, spool: Path) -> None:
    GpuRepo(store).see([Sighting(f"GPU-{node}", node, 0, "a100") for node in room.nodes], NIGHT - 20)
    card = LearnedRepo(store).cards(["GPU-n3"])["GPU-n3"]
    claimed = CurrentScore(card.id, "A", 1.05, 0.9, 1.2, NIGHT - 15, 1, asked=2.9)
    LearnedRepo(store).write([claimed], {}, NIGHT - 15)
    work = run_of(room, store, spool, parallel=1)
    assert work.step(NIGHT).running == ("n3",)
    room.finish(spool)
    assert work.step(NIGHT + 2).running == ("n1",)


def test_without_a_window_busy_nodes_are_left_out(room: Room, store: Store, spool: Path) -> None:
    room.taken = {"n2"}
    work = run_of(room, store, spool)
    work.step(NIGHT)
    room.finish(spool)
    last = work.step(NIGHT + 2)
    assert (last.finished, last.busy) == (True, ("n2",))
    assert [node for node, _ in room.submitted] == ["n1", "n3", "n4"]


def test_in_a_window_busy_nodes_are_waited_for_until_it_closes(room: Room, store: Store, spool: Path) -> None:
    room.taken = {"n2", "n3"}
    work = run_of(room, store, spool, Window(NIGHT, NIGHT + 3600))
    work.step(NIGHT)
    room.finish(spool)
    assert not work.step(NIGHT + 2).finished
    room.taken = {"n3"}
    assert work.step(NIGHT + 60).running == ("n2",)
    room.finish(spool)
    assert not work.step(NIGHT + 120).finished
    last = work.step(NIGHT + 3600)
    assert (last.finished, last.done, last.busy) == (True, ("n1", "n2", "n4"), ("n3",))


def test_no_job_outlives_the_window(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool, Window(NIGHT, NIGHT + 3600), parallel=1)
    work.step(NIGHT)
    room.finish(spool)
    work.step(NIGHT + 3600 - 600)
    assert [minutes for _, minutes in room.submitted] == [30, 10]
    work.step(NIGHT + 3600)
    assert room.jobs == {}


def test_a_job_that_leaves_nothing_is_tried_twice(room: Room, store: Store, spool: Path) -> None:
    said: list[str] = []
    work = run_of(room, store, spool)
    work.wanted = replace(work.wanted, nodes=("n1",))
    work.tell = said.append
    at = NIGHT
    for _ in range(2):
        work.step(at)
        room.finish()
        work.step(at + 1)
        at += 2 + ARRIVES_S
        last = work.step(at)
    room.finish()
    assert last.failed == ("n1",)
    assert len(room.submitted) == 2
    assert "left no document" in said[-1]


def test_what_a_failed_job_said_last_is_told(room: Room, store: Store, spool: Path) -> None:
    said: list[str] = []
    (spool.parent / "logs").mkdir()
    work = run_of(room, store, spool)
    work.wanted, work.tell = replace(work.wanted, nodes=("n1",)), said.append
    work.step(NIGHT)
    (spool.parent / "logs" / "n1.out").write_bytes(b"loading\npal-probe: no \x1b[31mdriver\n\n")
    room.finish()
    work.step(NIGHT + 1)
    work.step(NIGHT + 2 + ARRIVES_S)
    assert said[-1].endswith("n1.out: pal-probe: no  [31mdriver")


@pytest.mark.parametrize(
    ("made", "output"),
    [
        (lambda logs: logs.mkdir(mode=0o755), "{logs}/%N.out"),
        (lambda logs: None, "/dev/null"),
        (lambda logs: (logs.mkdir(), logs.chmod(0o777)), "/dev/null"),
        (lambda logs: (logs.mkdir(), logs.chmod(0o2770)), "/dev/null"),
        (lambda logs: logs.symlink_to(logs.parent), "/dev/null"),
        (lambda logs: (logs.mkdir(), logs.parent.chmod(0o777)), "/dev/null"),
        (lambda logs: (logs.mkdir(), logs.parent.chmod(0o1777)), "{logs}/%N.out"),
        pytest.param(
            lambda logs: (logs.mkdir(), shutil.chown(logs, 65534)), "/dev/null",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user"),
        ),
    ],
)  # fmt: skip
def test_jobs_print_into_a_directory_that_only_pal_can_write_or_nowhere(
    made: Callable[[Path], object], output: str, room: Room, store: Store, spool: Path
) -> None:
    """Slurm opens that file as pald's user, through any link."""
    logs, said = spool.parent / "logs", list[str]()
    made(logs)
    work = run_of(room, store, spool)
    work.tell = said.append
    work.step(NIGHT)
    assert {terms.output for terms in room.terms} == {output.format(logs=logs)}
    assert any("profile.logs" in each for each in said) == (output == "/dev/null")
    assert list(spool.iterdir()) == []


def test_a_user_who_knows_the_name_of_a_document_redirects_none(spool: Path) -> None:
    """Links and directories that lie there before the profile job comes."""
    victim = spool.parent / "victim"
    victim.write_text("untouched")
    script = batch_script(ProfileSection(spool=str(spool), command="echo document"), "n1")
    for name in (".profile-n1-7.json", "profile-n1-7.json"):
        (spool / name).symlink_to(victim)
    env = {**os.environ, "SLURM_JOB_ID": "7"}
    assert subprocess.run(["sh"], input=script, text=True, env=env, check=False).returncode == 0
    assert victim.read_text() == "untouched"
    assert (spool / "profile-n1-7.json").read_text() == "document\n"
    (spool / "profile-n1-8.json").symlink_to(spool.parent)
    subprocess.run(["sh"], input=script, text=True, env={**env, "SLURM_JOB_ID": "8"}, check=False)
    assert sorted(path.name for path in spool.parent.iterdir() if path.name.startswith(".")) == []
    assert (spool / "profile-n1-8.json").read_text() == "document\n"


@pytest.mark.parametrize("code", [0, 3])
def test_without_a_spool_in_the_command_what_it_prints_is_the_document(spool: Path, code: int) -> None:
    home = spool / "it's here"
    home.mkdir()
    script = batch_script(ProfileSection(spool=str(home), command=f"echo one; echo two; (exit {code})"), "n1")
    done = subprocess.run(["sh"], input=script, text=True, env={**os.environ, "SLURM_JOB_ID": "7"}, check=False)
    assert done.returncode == code
    assert [(path.name, path.read_text()) for path in home.iterdir()] == [("profile-n1-7.json", "one\ntwo\n")]


def test_a_command_that_prints_nothing_leaves_nothing(spool: Path) -> None:
    script = batch_script(ProfileSection(spool=str(spool), command="false"), "n1")
    assert subprocess.run(["sh"], input=script, text=True, check=False).returncode == 1
    assert list(spool.iterdir()) == []


def test_a_document_may_take_its_time_to_arrive(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool)
    work.step(NIGHT)
    nodes = [job.node for job in room.jobs.values()]
    room.finish()
    assert not work.step(NIGHT + 5).finished
    for node in nodes:
        put(spool, document(node, fleet(4), NIGHT, rounds=1))
    last = work.step(NIGHT + ARRIVES_S - 1)
    assert (len(last.done), last.failed, last.finished) == (4, (), True)


def test_a_node_that_slurm_refuses_is_failed_and_the_others_are_done(room: Room, store: Store, spool: Path) -> None:
    room.refused, room.down = {"n1"}, {"n2"}
    work = run_of(room, store, spool)
    work.step(NIGHT)
    room.finish(spool)
    work.step(NIGHT + 1)
    last = work.step(NIGHT + 2)
    assert (last.done, last.failed, last.down, last.finished) == (("n3", "n4"), ("n1",), ("n2",), True)


def test_a_job_that_lost_its_node_is_taken_back_and_is_no_failure(room: Room, store: Store, spool: Path) -> None:
    room.stuck = {"n1"}
    work = run_of(room, store, spool)
    work.wanted = replace(work.wanted, nodes=("n1",))
    work.step(NIGHT)
    room.taken = {"n1"}
    last = work.step(NIGHT + WAITS_S + 1)
    assert (room.cancelled, last.failed) == ([100], ())


def test_jobs_of_an_earlier_run_are_adopted(room: Room, store: Store, spool: Path) -> None:
    room.jobs = {7: OurJob(7, "n1", True)}
    work = run_of(room, store, spool)
    work.step(NIGHT)
    assert "n1" not in [node for node, _ in room.submitted]
    room.finish(spool)
    assert work.step(NIGHT + 1).done == room.nodes


def test_an_unknown_node_is_a_sentence(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool)
    work.wanted = replace(work.wanted, nodes=("n1", "n99"))
    with pytest.raises(BadInput, match="n99"):
        work.step(NIGHT)


# Giving way -----


def test_only_as_many_give_way_as_a_waiting_job_needs(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool)
    work.step(NIGHT)
    room.waiting = [waiting_job(nodes=2, gpus=4)]
    progress = work.step(NIGHT + 2)
    assert (len(room.cancelled), progress.gave_way) == (2, 2)
    assert len(room.submitted) == 4  # nothing is put in its way again in the same breath


def test_what_could_not_start_anyway_keeps_nobody_from_measuring(room: Room) -> None:
    view = replace_ours(room, {"n1", "n2"})
    room.taken = {"n3", "n4"}
    assert in_the_way(waiting(room, waiting_job(nodes=3, gpus=4)), view, ()) == []
    assert in_the_way(waiting(room, waiting_job(why=Waits.BLOCKED)), view, ()) == []
    assert in_the_way(waiting(room, waiting_job(why=Waits.LIMIT)), view, ()) == []
    assert in_the_way(waiting(room, waiting_job(excluded_nodes="n[1-2]")), view, ()) == []


def test_free_nodes_are_used_before_ours(room: Room) -> None:
    view = replace_ours(room, {"n1", "n2"})
    assert in_the_way(waiting(room, waiting_job(nodes=2)), view, ()) == []
    assert in_the_way(waiting(room, waiting_job(nodes=3)), view, ()) == ["n1"]
    both = (waiting_job(1, nodes=2, gpus=4), waiting_job(2, nodes=1, gpus=4))
    assert in_the_way(waiting(room, *both), view, ()) == ["n1"]
    assert in_the_way(waiting(room, waiting_job(required_nodes="n2")), view, ()) == ["n2"]


def test_small_jobs_share_one_node_of_ours(room: Room) -> None:
    view = replace_ours(room, set(room.nodes))
    four = tuple(waiting_job(n) for n in range(1, 5))
    assert len(in_the_way(waiting(room, *four), view, ())) == 1


def test_where_the_site_preempts_by_itself_nothing_is_given(room: Room, store: Store, spool: Path) -> None:
    work = run_of(room, store, spool, give_way=False)
    work.step(NIGHT)
    room.waiting = [waiting_job()]
    work.step(NIGHT + 2)
    assert room.cancelled == []


def replace_ours(room: Room, nodes: set[str]) -> set[str]:
    room.jobs = {i: OurJob(i, node, True) for i, node in enumerate(sorted(nodes), 1000)}
    return nodes


def waiting(room: Room, *jobs: Job) -> Snapshot:
    room.waiting = list(jobs)
    return room.snapshot()


# Windows and idle nodes -----


def test_a_reservation_that_begins_too_soon_keeps_a_node_out(room: Room) -> None:
    room.reservations = [Reservation("soon", frozenset({"n1"}), int(NIGHT + 600), int(NIGHT + 7200))]
    assert idle(room.snapshot(), 30) == {"n2", "n3", "n4"}
    assert idle(room.snapshot(), 5) == set(room.nodes)


def at(text: str) -> float:
    return datetime.strptime(f"2026-11-18 {text}", "%Y-%m-%d %H:%M").timestamp()


def test_windows_open_and_close_also_past_midnight() -> None:
    night = hours("01:00-05:00")
    assert night.around(at("00:59")) is None
    assert night.around(at("01:00")) == Window(at("01:00"), at("05:00"))
    assert night.around(at("05:00")) is None
    late = hours("22:30-4:00")
    evening, morning = late.around(at("23:00")), late.around(at("03:00"))
    assert evening is not None
    assert evening.opened == at("22:30")
    assert morning is not None
    assert morning.closes == at("04:00")
    assert late.around(at("12:00")) is None


@pytest.mark.parametrize("text", ["", "1-5", "25:00-26:00", "01:00", "01:00-01:00", "01:00-05:60", "a:b-c:d"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        hours(text)
