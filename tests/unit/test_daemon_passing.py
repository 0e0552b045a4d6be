"""What passes without a lease: never past a job that waits under one, and only where nothing better can come."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pal_slurm.config import Config
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.leases.passing import Known
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Edit,
    EditResult,
    Job,
    Knowledge,
    LeaseAgain,
    Outcome,
    Pin,
    Placement,
    Plain,
    Reason,
    Renew,
    Shape,
    Unpin,
    Waits,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import compose
from tests.builders import NOW, leased, scores, snapshot

CONFIG = Config(actuator="pin")
CLUSTER = homogeneous(2, 4)
ALL = ["pass all 1000000 1000008"]


def known(*jobs: Job, knowledge: Knowledge | None = None, cluster: Cluster = CLUSTER, **more: Any) -> Known:
    facts: dict[str, Any] = {"composition": compose("pal"), "config": CONFIG} | more
    view = snapshot(*jobs, cluster=cluster)
    return Known(view, knowledge or Knowledge(neutral_scores(cluster)), facts["composition"], facts["config"])


def done(edit: Edit, outcome: Outcome = Outcome.DONE) -> EditResult:
    return EditResult(edit, outcome)


def lines(k: Known, *results: EditResult, **expected: Placement) -> list[str]:
    return list(k.lines(results, NOW + 0.1, {int(name[1:]): where for name, where in expected.items()}))


def test_with_no_scores_all_jobs_pass_while_nobody_is_leased() -> None:
    assert lines(known()) == ALL
    assert lines(known(leased(1))) == []


def test_a_leased_job_keeps_all_others_from_passing_until_its_release_was_seen_to_stand() -> None:
    k = known(leased(1))
    assert lines(k, done(Plain(1))) == ALL
    assert lines(k, done(Pin(1, nodes=("n1",)))) == ALL
    assert lines(k, done(Plain(1), Outcome.STARTED)) == ALL
    for outcome in (Outcome.UNKNOWN, Outcome.REFUSED, Outcome.PARTIAL):
        assert lines(k, done(Plain(1), outcome)) == []
    assert lines(k, done(Renew(1, until=NOW + 99))) == []
    assert lines(k, done(Plain(1, task=2))) == []  # one task of an array


def test_a_job_that_is_leased_again_keeps_them_too() -> None:
    assert lines(known(), done(LeaseAgain(1, until=NOW + 40))) == []
    assert lines(known(), done(Unpin(1, until=NOW + 40))) == []
    assert lines(known(), done(Unpin(1))) == ALL


def test_jobs_that_do_not_compete_now_keep_nobody() -> None:
    held = leased(1, why=Waits.HELD)
    dependent = leased(2, dependency="afterok:7(unfulfilled)")
    theirs = leased(3, lease=None, eligible=NOW - 5, why=Waits.ROOM)
    assert lines(known(held, dependent, theirs)) == ALL


@pytest.mark.parametrize(
    "more",
    [
        {"config": Config(actuator="pin", lease=msgspec.structs.replace(CONFIG.lease, let_through=False))},
        {"config": Config(actuator="shadow")},
        {"composition": compose("pal", order="fifo")},
        {"composition": compose("packed")},
        {"composition": compose("random")},
        {"cluster": replace(CLUSTER, node_ok=np.zeros(2, dtype=np.bool_))},
    ],
)
def test_other_wishes_of_the_admin_and_a_cluster_without_nodes_let_nobody_pass(more: dict[str, Any]) -> None:
    assert lines(known(**more)) == []


def test_gpu_models_that_differ_in_speed_tell_gpus_apart() -> None:
    two = replace(CLUSTER, models=("a100", "v100"), gpu_model=np.array([[0] * 4, [1] * 4], dtype=np.int16))
    neutral = neutral_scores(two)
    app = App("x", "A", {"a100": 1.0, "v100": 2.0})
    assert lines(known(cluster=two)) == ALL
    assert lines(known(cluster=two, knowledge=Knowledge(neutral, Apps({"x": app})))) == []


def test_jobs_are_let_go_in_their_order_until_one_stays() -> None:
    big = leased(3, shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=4))
    jobs = [leased(1), leased(2), big, leased(4)]
    decisions = [Decision(j.id, None, Action.WAIT, Reason.NO_ROOM, rank=i) for i, j in enumerate(jobs)]
    decisions[0] = replace(decisions[0], action=Action.START, placement=Placement(("n1",), ((0,),), True))
    told = known(*jobs).ahead(decisions, {})
    assert [d.action for d in told] == [Action.PLAIN, Action.PLAIN, Action.WAIT, Action.WAIT]
    assert told[0].placement is None and told[1].reason is Reason.NOTHING_BETTER
    held_back = known(*jobs).ahead(decisions, {jobs[0].key: NOW + 5.0})
    assert [d.action for d in held_back] == [Action.START, Action.WAIT, Action.WAIT, Action.WAIT]


def test_arrays_and_jobs_that_are_not_ours_are_left_as_planned() -> None:
    array = leased(1, array_id=1, array_tasks=(0, 1))
    theirs = leased(2, lease=None, eligible=NOW - 5)
    decisions = [
        Decision(2, None, Action.LEAVE, Reason.FOREIGN),
        Decision(1, None, Action.WAIT, Reason.NO_ROOM),
        Decision(3, None, Action.WAIT, Reason.NO_ROOM),
    ]
    assert known(theirs, array, leased(3)).ahead(decisions, {}) == tuple(decisions)


def test_a_lease_that_ran_out_is_not_taken_up_again_for_nothing() -> None:
    ran_out = leased(1, eligible=NOW - 5)
    wide = leased(2, eligible=NOW - 5, shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=1))
    both = frozenset((1, 2))
    assert known(ran_out, wide).worth_leasing(both) == {2}
    assert known(ran_out, wide, knowledge=Knowledge(scores(A=[[1.0, 1.5, 1, 1]] * 2))).worth_leasing(both) == both


def test_so_many_pass_as_slurm_would_take_good_gpus_one_after_the_other() -> None:
    a = [[1.0, 1.01, 1.0, 1.2], [1.0, 1.0, 1.0, 1.0]]
    assert lines(known(knowledge=Knowledge(scores(A=a)))) == ["pass some 1000000 1000008", "room gpu A 3", "class A"]


def test_what_is_taken_or_about_to_be_is_not_counted() -> None:
    a = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 2.0]]
    free = CLUSTER.gpu_free.copy()
    free[0, 0] = False
    k = known(leased(5), knowledge=Knowledge(scores(A=a)), cluster=replace(CLUSTER, gpu_free=free))
    pin = done(Pin(5, nodes=("n1",), slots=(1,)))
    assert lines(k, pin)[1] == "room gpu A 5"
    assert lines(k, pin, j9=Placement(("n2",), ((0, 1),), True))[1] == "room gpu A 3"


def test_a_class_without_spread_passes_where_it_takes_nothing_that_another_class_needs() -> None:
    a = [[1.0, 1.0, 0.9, 1.0], [1.0, 1.0, 1.0, 1.0]]
    b = [[1.0] * 4] * 2
    apps = Apps({"bert": App("bert", "B"), "bad\nname": App("bad", "B"), "known": App("known", "A")})
    told = lines(known(knowledge=Knowledge(scores(A=a, B=b), apps)))
    assert told == ["pass some 1000000 1000008", "room gpu B 2", "app bert B", "class A"]


def test_with_scores_nobody_passes_while_anybody_waits() -> None:
    a = [[1.0, 1.0, 1.0, 2.0]] * 2
    theirs = leased(3, lease=None, eligible=NOW - 5, why=Waits.ROOM)
    assert lines(known(theirs, knowledge=Knowledge(scores(A=a)))) == []
    assert len(lines(known(knowledge=Knowledge(scores(A=a))))) == 3


def test_what_an_earlier_pald_let_pass_is_shut_too(tmp_path: Path) -> None:
    path = tmp_path / "alive"
    path.write_text(f"12\n{ALL[0]}\nend\n")
    Alive(path).shut()
    assert told(path) == "12\nend\n"


def test_shutting_is_no_sign_of_life(tmp_path: Path) -> None:
    Alive(tmp_path / "alive").shut()
    assert not (tmp_path / "alive").exists()


def test_a_queue_that_could_not_be_read_whole_lets_nobody_pass() -> None:
    k = known()
    assert lines(replace(k, view=replace(k.view, unread=("job 7 could not be read",)))) == []


def test_one_job_with_a_text_that_is_too_long_to_be_read_keeps_nobody_from_passing() -> None:
    """Its user made it so: anybody could have sent everybody's jobs through a lease."""
    k = known()
    assert lines(replace(k, view=replace(k.view, too_long=("job 7: its Dependency is too long",)))) == lines(k) != []


def test_the_file_says_what_lua_may_read_and_is_shut_before_somebody_is_leased(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "alive", ("high", "a b", "x\npass all 1 9", "over.night"), lease_s=45)
    alive.beat(12.9, ALL)
    assert alive.path is not None
    assert told(alive.path) == f"12\npreempt high,over.night\nlease 45\n{ALL[0]}\nend\n"
    alive.shut()
    assert told(alive.path) == "12\npreempt high,over.night\nlease 45\nend\n"
    alive.gone()
    alive.shut()
    assert alive.path.read_text() == ""


def told(path: Path) -> str:
    """The file without the version, which is another one each time."""
    head, _, rest = path.read_text().partition("\n")
    time, version = head.split()
    assert re.fullmatch("[0-9a-f]{8}", version) and version not in VERSIONS
    VERSIONS.add(version)
    return f"{time}\n{rest}"


VERSIONS: set[str] = set()


def test_the_file_is_written_in_place_and_its_version_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads between two writes finds no version, or all of one."""
    alive, path = Alive(tmp_path / "alive"), tmp_path / "alive"
    alive.beat(12, ALL)
    inode, seen, whole = path.stat().st_ino, [], [path.read_text()]
    pwrite, ftruncate = os.pwrite, os.ftruncate

    def written(fd: int, data: bytes, at: int) -> int:
        seen.append(path.read_text())
        return pwrite(fd, data, at)

    def cut(fd: int, size: int) -> None:
        seen.append(path.read_text())
        ftruncate(fd, size)

    monkeypatch.setattr(os, "pwrite", written)
    monkeypatch.setattr(os, "ftruncate", cut)
    alive.beat(13, [*ALL, "class A"])
    whole.append(path.read_text())
    alive.shut()
    whole.append(path.read_text())
    assert path.stat().st_ino == inode and len(seen) == 8 and len(set(whole)) == 3
    assert all(text in whole or re.match(r"[0-9]+ -{8}\n", text) for text in seen)


def test_more_than_job_submit_lua_reads_is_not_written(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "alive")
    alive.beat(12, [*ALL, *(f"app {'x' * 60}{n} B" for n in range(500))])
    assert alive.path is not None and told(alive.path) == "12\nend\n"


def test_what_can_not_be_written_costs_leases_and_no_cycle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is anything written that somebody put in the file's place."""
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "file" / "alive", tmp_path / "link", tmp_path / "pipe", tmp_path, Path("/dev/null")):
        alive = Alive(path)
        alive.beat(1, ALL)
        alive.beat_beside(1)
        alive.shut()
        alive.gone()
        assert caplog.text.count(f"cycle.alive_file: can't write {path}: ") == 2
    assert (tmp_path / "file").read_text() == "kept" and (tmp_path / "link").is_symlink()
    made = Alive(tmp_path / "new" / "alive")
    made.beat_beside(5)
    assert (tmp_path / "new" / "alive").read_text() == "exclude 5\n"
    made.beat(6)
    assert told(tmp_path / "new" / "alive") == "6\nend\n"
