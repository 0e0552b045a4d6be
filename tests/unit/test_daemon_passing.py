"""What passes without a lease: never past a job that waits under one, and only where nothing better can come."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from pal_slurm.config import Config
from pal_slurm.config.apps import PatternEntry
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.leases.passing import FEWEST, MOST_KINDS, MOST_OF_USER, Known
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Edit,
    EditResult,
    Hint,
    Job,
    Knowledge,
    LeaseAgain,
    Outcome,
    Pin,
    Placement,
    Plain,
    Reason,
    Renew,
    RunTimes,
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
    facts: dict[str, Any] = {"composition": compose("pal"), "config": CONFIG, "times": RunTimes()} | more
    view = snapshot(*jobs, cluster=cluster)
    found = knowledge or Knowledge(neutral_scores(cluster))
    return Known(view, found, facts["composition"], facts["config"], facts["times"])


def done(edit: Edit, outcome: Outcome = Outcome.DONE) -> EditResult:
    return EditResult(edit, outcome)


def lines(k: Known, *results: EditResult) -> list[str]:
    return list(k.lines(results, NOW + 0.1))


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


def test_an_array_is_let_go_as_a_whole_and_jobs_that_are_not_ours_are_left_as_planned() -> None:
    array = leased(1, array_id=1, array_tasks=(0, 1, 2))
    theirs = leased(2, lease=None, eligible=NOW - 5)
    there = Placement(("n1",), ((0,),), True)
    decisions = [
        Decision(2, None, Action.LEAVE, Reason.FOREIGN),
        Decision(1, 0, Action.START, Reason.BEST_SPAN, there),
        Decision(1, 1, Action.START, Reason.BEST_SPAN, there),
        Decision(1, None, Action.WAIT, Reason.NO_ROOM),
        Decision(3, None, Action.WAIT, Reason.NO_ROOM),
    ]
    told = known(theirs, array, leased(3)).ahead(decisions, {})
    assert [(d.job, d.task, d.action) for d in told] == [
        (2, None, Action.LEAVE),
        (1, None, Action.PLAIN),
        (3, None, Action.PLAIN),
    ]
    assert known(theirs, array).ahead(decisions[:-1], {array.key: NOW + 5.0}) == tuple(decisions[:-1])


def test_a_lease_that_ran_out_is_not_taken_up_again_for_nothing() -> None:
    ran_out = leased(1, eligible=NOW - 5)
    wide = leased(2, eligible=NOW - 5, shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=1))
    both = frozenset((1, 2))
    assert known(ran_out, wide).worth_leasing(both) == {2}
    assert known(ran_out, wide, knowledge=Knowledge(scores(A=[[1.0, 1.5, 1, 1]] * 2))).worth_leasing(both) == both


SLOW = Knowledge(scores(A=[[0.9, 1.0, 1.0, 1.5]] * 2, B=[[1.0] * 4] * 2))
ME = pwd.getpwuid(os.getuid()).pw_name
UID = os.getuid()


def ended(*kinds: tuple[str, str, float], many: int = FEWEST) -> RunTimes:
    """Of each user and application so many jobs have run for so long."""
    times = RunTimes()
    for _ in range(many):
        for user, app, ran_s in kinds:
            times.ended(user, app, "", None, ran_s)
    return times


BRIEF = ["pass brief 1000000 1000008"]


@pytest.mark.parametrize(
    ("times", "knowledge", "told"),
    [
        (ended((ME, "bert", 1.0)), SLOW, [*BRIEF, f"brief {UID} bert"]),
        (ended((ME, "?", 1.0)), SLOW, [*BRIEF, f"brief {UID} -"]),
        (
            ended((ME, "bert", 1.0), (ME, "?", 1.0), (ME, "?", 1.0)),
            SLOW,
            [*BRIEF, f"brief {UID} -", f"brief {UID} bert"],
        ),
        (ended((ME, "bert", 3.0)), SLOW, [*BRIEF, f"brief {UID} bert"]),  # the worst GPU costs it 1.8 s, any GPU 0.6
        (ended((ME, "bert", 4.0)), SLOW, []),
        (ended((ME, "bert", 20.0)), Knowledge(scores(A=[[1.0, 1.07, 1.07, 1.07]] * 2)), []),  # any GPU costs it 1.2 s
        (ended((ME, "bert", 5.0)), Knowledge(scores(A=[[1.0, 1.0, 1.0, 1.3]] * 2)), [*BRIEF, f"brief {UID} bert"]),
        (ended((ME, "bert", 1.0)), Knowledge(scores(A=[[0.1, 1.0, 1.0, 1.5]] * 2)), []),
        (ended(*[(ME, "bert", ran_s) for ran_s in (0.5, 0.5, 0.5, 3600.0)]), SLOW, []),  # nobody knows
        (ended((ME, "bert", 1.0), many=FEWEST - 1), SLOW, []),
        (ended(("nobody of this host", "bert", 1.0)), SLOW, []),
        (ended((ME, "ber t", 1.0), (ME, "x\npass all 1 9", 1.0)), SLOW, []),
        (  # it is of class B, for which all GPUs are alike
            ended((ME, "tiny", 250.0)),
            replace(SLOW, apps=Apps({"tiny": App("tiny", "B")})),
            [*BRIEF, f"brief {UID} tiny"],
        ),
        (  # a model that is twice as slow
            ended((ME, "tiny", 1.0)),
            replace(SLOW, apps=Apps({"tiny": App("tiny", "B", {"gpu": 2.0, "other": 1.0})})),
            [*BRIEF, f"brief {UID} tiny"],
        ),
        (
            ended(*[(ME, f"a{n}", 1.0) for n in range(MOST_OF_USER + 9)]),
            SLOW,
            [*BRIEF, *[f"brief {UID} a{n}" for n in range(MOST_OF_USER)]],
        ),
    ],
)
def test_kinds_of_jobs_pass_that_would_gain_less_than_a_lease_costs(
    times: RunTimes, knowledge: Knowledge, told: list[str]
) -> None:
    assert lines(known(knowledge=knowledge, times=times)) == told
    assert lines(known(leased(1), knowledge=knowledge, times=times)) == [], "one waits under a lease"


def test_where_patterns_name_applications_who_names_none_is_of_no_kind() -> None:
    config = Config(actuator="pin", patterns=(PatternEntry("bert", job_name="train-*"),))
    times = ended((ME, "?", 1.0), (ME, "bert", 1.0))
    assert lines(known(knowledge=SLOW, times=times, config=config)) == [*BRIEF, f"brief {UID} bert"]


def test_what_is_said_of_kinds_is_never_more_than_job_submit_lua_reads(tmp_path: Path) -> None:
    long = max(pwd.getpwall(), key=lambda user: user.pw_uid).pw_name
    users = {user.pw_name for user in pwd.getpwall()} | {long}
    times = ended(*[(user, f"{n:064}", 1.0) for n in range(MOST_OF_USER + 1) for user in users])
    said = lines(known(knowledge=SLOW, times=times))
    assert len(said) == 1 + min(MOST_KINDS, MOST_OF_USER * len(users))
    alive = Alive(tmp_path / "alive")
    alive.beat(12, said)
    assert alive.path is not None and said[-1] in told(alive.path)


def test_jobs_that_are_over_soon_are_let_go_in_their_order_until_one_stays() -> None:
    times = ended(("u", "bert", 1.0), ("u", "long", 3600.0))
    bert, long = Hint("bert"), Hint("long")
    jobs = [leased(1, hint=bert), leased(2, hint=bert), leased(3, hint=long), leased(4, hint=bert)]
    decisions = [Decision(j.id, None, Action.WAIT, Reason.NO_ROOM, rank=i) for i, j in enumerate(jobs)]
    said = known(*jobs, knowledge=SLOW, times=times).ahead(decisions, {})
    assert [(d.action, d.reason) for d in said] == [(Action.PLAIN, Reason.OVER_SOON)] * 2 + [
        (Action.WAIT, Reason.NO_ROOM)
    ] * 2
    off = Config(actuator="pin", lease=msgspec.structs.replace(CONFIG.lease, let_through=False))
    assert known(*jobs, knowledge=SLOW, times=times, config=off).ahead(decisions, {}) == tuple(decisions)
    ran_out = [replace(job, eligible=NOW - 5) for job in jobs]
    assert known(*ran_out, knowledge=SLOW, times=times).worth_leasing(frozenset((1, 2, 3, 4))) == {3}


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
    alive.beat(13, [*ALL, "brief 7 a"])
    whole.append(path.read_text())
    alive.shut()
    whole.append(path.read_text())
    assert path.stat().st_ino == inode and len(seen) == 8 and len(set(whole)) == 3
    assert all(text in whole or re.match(r"[0-9]+ -{8}\n", text) for text in seen)


def test_more_than_job_submit_lua_reads_is_not_written(tmp_path: Path) -> None:
    alive = Alive(tmp_path / "alive")
    alive.beat(12, [*ALL, *(f"brief 7 {'x' * 60}{n}" for n in range(500))])
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
