"""Slurm's words to model nouns: GRES texts, jobs, marks, array tasks, nodes."""

from __future__ import annotations

from typing import Any

import pytest

from pal_slurm.model import Given, JobState, Request, Shape, Waits
from pal_slurm.slurm import gres
from pal_slurm.slurm.mark import read_mark
from pal_slurm.slurm.nodes import (
    PLAIN_WORDS,
    NodeRecord,
    PartitionRecord,
    ReservationRecord,
    SiteWords,
    to_cluster,
    to_reservation,
)
from pal_slurm.slurm.pyslurm.worker import older, read
from pal_slurm.slurm.records import JobRecord, read_tasks, to_job, to_jobs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gres:gpu:2", [("", 2, ())]),
        ("gres/gpu:2", [("", 2, ())]),
        ("gpu:2", [("", 2, ())]),
        ("gres/gpu", [("", 1, ())]),
        ("gres/gpu:a100", [("a100", 1, ())]),
        ("gres/gpu:a100:2", [("a100", 2, ())]),
        ("cpu=1,gres/gpu=2", [("", 2, ())]),
        ("gres/gpu:g1:1,gres/gpu:g3:1", [("g1", 1, ()), ("g3", 1, ())]),
        ("gpu:a100:3(IDX:0,2-3)", [("a100", 3, (0, 2, 3))]),
        ("gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A)", [("g0", 1, (0,)), ("g1", 0, ())]),
        ("gpu:a100:4(S:0-1)", [("a100", 4, ())]),
        ("gres/gpu:4K", [("", 4096, ())]),
        ("gpu:3090:4(S:0-1)", [("3090", 4, ())]),
        ("gpu:3090:2(IDX:0-1),gpu:2080ti:0(IDX:N/A)", [("3090", 2, (0, 1)), ("2080ti", 0, ())]),
        ("gres/gpu:4090=2", [("4090", 2, ())]),
        ("gres/gpu:1g.5gb", [("1g.5gb", 1, ())]),
        ("gpu:8(S:0-1)", [("", 8, ())]),
        ("gres/shard:2,license/x:1,cpu=4", []),
        ("", []),
        ("(null)", []),
    ],
)
def test_every_way_to_write_gpus_is_read(text: str, found: list[tuple[str, int, tuple[int, ...]]]) -> None:
    assert [tuple(item) for item in gres.gpus_in(text)] == found


def test_the_same_request_is_known_in_other_words() -> None:
    assert gres.same("gres:gpu:2", "gres/gpu:2")
    assert gres.same("gres/gpu:g1:1,gres/gpu:g3:1", "gres/gpu:g3:1,gres/gpu:g1")
    assert gres.same("", "cpu=1")
    assert not gres.same("gres/gpu:2", "gres/gpu:a100:2")
    assert not gres.same("gres/gpu:g1:1", "gres/gpu:g1:2")


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("", ()),
        ("4", (4,)),
        ("0-3", (0, 1, 2, 3)),
        ("1,3-9:3%2", (1, 3, 6, 9)),
        ("[2,5-6]", (2, 5, 6)),
        ("1,2,...", ()),
        ("0-99999999999", ()),
        ("1-9:0", ()),
        ("x", ()),
    ],
)
def test_array_tasks_are_read_whole_or_not_at_all(text: str, tasks: tuple[int, ...]) -> None:
    assert read_tasks(text) == tasks


def test_the_mark_gives_the_end_of_the_lease_and_the_request_as_it_was() -> None:
    lease = read_mark("pal1{b=1700000000;n=gres/gpu:2;N=1-2;P=gpu,long;f=a100&rack1;r=1} put here by the admin")
    assert lease is not None
    assert (lease.end, lease.own_nodes) == (1_700_000_000, True)
    assert lease.original == Request("gres/gpu:2", "", "", "", 1, 2, "gpu,long", "a100&rack1")


def test_the_mark_keeps_what_was_said_of_moves_and_requeues() -> None:
    for text, said in (
        ("", (None, False)),
        (";q=1;m=1", (True, True)),
        (";q=0", (False, False)),
        (";q=2;m=0", (None, False)),
    ):
        lease = read_mark("pal1{b=1700000000;n=gres/gpu:2" + text + "}")
        assert lease and (lease.requeue, lease.asked_to_move) == said


def consent(site: SiteWords = PLAIN_WORDS, /, **facts: Any) -> Given:
    return to_job(record(**{"requeue": True, "per_node": "gres/gpu:1", "num_nodes": 1, **facts}), site).consent.given


def test_a_word_that_was_taken_back_later_is_taken_back_and_one_that_came_later_counts() -> None:
    asked = "pal1{b=1700000000;n=gres/gpu:1;m=1}"
    assert consent(admin_comment=asked, comment="pal:move") is Given.ASKED
    assert consent(admin_comment=asked, comment="mine") is Given.TAKEN_BACK
    assert consent(admin_comment=asked, comment="pal:stay") is Given.STAY
    assert consent(admin_comment=asked, comment=None) is Given.UNREAD
    assert consent(admin_comment="pal1{b=1700000000;n=gres/gpu:1}", comment="pal:move") is Given.ASKED


def test_jobs_of_a_qos_or_partition_that_the_site_named_may_be_moved() -> None:
    site = SiteWords(movable_qos=frozenset({"low"}), movable_partitions=frozenset({"spot", "scavenge"}))
    assert consent(site, qos="low", partition="gpu") is Given.SITE
    assert consent(site, qos="high", partition="spot,scavenge") is Given.SITE
    assert consent(site, qos="high", partition="spot,gpu") is Given.NOT
    assert consent(site, partition="") is Given.NOT
    assert consent(site, qos="low", comment="pal:stay") is Given.STAY
    assert consent(site, qos="low", requeue=False) is Given.NO_REQUEUE
    assert consent(site, qos="low", comment="pal:move=60") is Given.ASKED
    assert consent(site, qos="low", admin_comment="pal1{b=1;m=1}") is Given.TAKEN_BACK


def test_what_slurm_would_not_start_again_is_not_moved() -> None:
    for mark in ("pal1{b=1;q=0}", "pal1{b=1;i=1}"):  # --no-requeue, later changed; srun, salloc: Requeue=1 all the same
        assert consent(comment="pal:move", admin_comment=mark) is Given.NO_REQUEUE


@pytest.mark.parametrize(
    "text", ["", "pal1", "pal1{}", "pal1{b=}", "pal1{b=x}", "x pal1{b=1}", "pal1{b=1;N=a-b}", "pal2{b=1}"]
)
def test_what_is_no_mark_gives_no_lease(text: str) -> None:
    assert read_mark(text) is None


def record(**facts: object) -> JobRecord:
    return JobRecord(id=7, submit=100, state="PENDING", user="eva", **facts)  # type: ignore[arg-type]


def test_a_record_of_a_waiting_job_tells_its_application_and_partition() -> None:
    job = to_job(record(per_node="gres/gpu:2", partition="gpu", num_nodes=1, comment="app:resnet"))
    assert job.hint.app == "resnet" and job.partitions == ("gpu",) and job.pending


def test_a_pinned_job_keeps_the_shape_that_its_user_asked_for() -> None:
    pinned = record(
        per_node="gres/gpu:g1:1,gres/gpu:g3:1", required_nodes="n3", num_nodes=1, max_nodes=1,
        admin_comment="pal1{b=1;n=gres/gpu:2;N=1-3}",
    )  # fmt: skip
    shape = to_job(pinned).shape
    assert shape == Shape(min_nodes=1, max_nodes=3, gpus_per_node=2)


@pytest.mark.parametrize(
    ("facts", "by_slot"),
    [
        ({"per_node": "gres/gpu:2"}, True),
        ({"per_job": "gres/gpu:4", "mem_per_gpu": "gres/gpu:4096"}, True),
        ({"per_node": "gres/gpu:1", "cpus_per_gpu": "gres/gpu:8"}, True),
        ({"per_node": "gres/gpu:2", "cpus_per_gpu": "gres/gpu:3"}, False),
        ({"per_job": "gres/gpu:4", "cpus_per_gpu": "gres/gpu:4"}, False),
        ({"per_node": "gres/gpu:2", "admin_comment": "pal1{b=1;n=gres/gpu:2;i=1}"}, False),
        ({"per_job": "gres/gpu:2", "admin_comment": "pal1{b=1;j=gres/gpu:2;i=1}"}, True),
        ({"per_task": "cpu=2,gres/gpu=1", "ntasks": 2}, False),
        ({"per_task": "gres/gpu=1", "ntasks": 2, "cpus": 1}, None),  # overcommitted
        ({"per_node": "gres/gpu:4", "per_job": "gres/gpu:8"}, None),
        ({"per_job": "gres/gpu:4", "per_task": "gres/gpu=2", "ntasks": 2}, None),
        ({"per_socket": "gres/gpu:1"}, None),
        ({"per_node": "gres/gpu:g1:1"}, None),
        ({"per_node": "gres/gpu:g1:1", "admin_comment": "pal1{b=1;n=gres/gpu:g1:1}"}, None),  # at submission
        ({"per_node": "gres/gpu:g1:1", "admin_comment": "pal1{b=1;n=gres/gpu:1}"}, None),  # later: a pin names nodes
    ],
)
def test_what_can_be_asked_for_is_decided_once(facts: dict[str, object], by_slot: bool | None) -> None:
    job = to_job(record(num_nodes=1, **facts))
    assert job.gpu_job
    assert (job.shape.by_slot if job.shape else None) is by_slot


def test_a_job_never_asks_for_more_nodes_at_least_than_at_most() -> None:
    """What Slurm shows as a pending job's nodes is what it last reckoned with."""
    job = to_job(record(per_node="gres/gpu:2", num_nodes=2, max_nodes=1))
    assert (job.request.min_nodes, job.request.max_nodes) == (1, 1)


def test_devices_of_a_running_job_are_listed_per_node() -> None:
    running = to_job(
        JobRecord(
            id=7, submit=1, state="RUNNING", user="eva", nodes="n[2,10]", num_nodes=2, cpus=4, per_job="gres/gpu:3",
            gres_detail=["gpu:g1:1(IDX:1)", "gpu:g0:1(IDX:0),gpu:g3:1(IDX:3)"],
        )
    )  # fmt: skip
    assert running.state is JobState.RUNNING
    assert running.nodes == ("n2", "n10") and running.gpus == ((1,), (0, 3)) and running.cpus_alloc == 4


def test_a_comment_that_cant_be_read_costs_only_the_hint() -> None:
    job = to_job(record(per_node="gres/gpu:1", comment=None))
    assert job.hint.dropped and job.shape is not None


def test_what_its_user_prefers_now_counts_and_not_what_its_mark_remembers() -> None:
    mark = "pal1{b=7;n=gres/gpu:1;F=odd}"
    assert [
        to_job(record(per_node="gres/gpu:1", admin_comment=mark, prefer=now)).prefers for now in ("even", "", None)
    ] == ["even", "", "odd"]


@pytest.mark.parametrize(
    ("state", "cut"),
    [
        ("COMPLETED", False), ("TIMEOUT", False), ("COMPLETING", False), ("RUNNING", False), ("PENDING", False),
        ("CANCELLED", True), ("FAILED", True), ("NODE_FAIL", True), ("PREEMPTED", True), ("OUT_OF_MEMORY", True),
        ("BOOT_FAIL", True), ("DEADLINE", True), ("REVOKED", True), ("A_WORD_OF_SOME_RELEASE", False),
    ],
)  # fmt: skip
def test_who_was_cancelled_failed_or_lost_its_node_did_not_run_to_its_end(state: str, cut: bool) -> None:
    assert to_job(JobRecord(1, 100, state, "u", per_node="gres/gpu:1")).cut is cut


def test_who_has_a_deadline_is_slurms_to_place() -> None:
    leased = {"per_node": "gres/gpu:1", "admin_comment": "pal1{b=7;n=gres/gpu:1}"}
    assert to_job(record(**leased, deadline=99)).slurms
    assert not to_job(record(**leased)).slurms and not to_job(record(per_node="gres/gpu:1", deadline=99)).slurms


def test_the_worker_sends_the_fields_of_a_job_in_the_order_of_the_record() -> None:
    assert JobRecord.__struct_fields__ == read.JOB_FIELDS


def node(name: str, state: str = "IDLE", used: str = "", **facts: object) -> NodeRecord:
    gpus = ",".join(f"gpu:g{slot}:1" for slot in range(4))
    return NodeRecord(name, state, 8, 0, 1000, 0, gres=gpus, gres_used=used, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "fit"),
    [
        ("IDLE", True), ("MIXED", True), ("ALLOCATED", True), ("COMPLETING", True), ("IDLE+PLANNED", True),
        ("IDLE+DRAIN", False), ("DOWN", False), ("IDLE*", False), ("MIXED+MAINT", False),
        ("idle+not_responding", False), ("IDLE~", True), ("DOWN*+DRAIN", False),
        ("IDLE+REBOOT_REQUESTED", False), ("MIXED+REBOOT_REQUESTED", True), ("MIXED+DRAIN+REBOOT_REQUESTED", False),
        ("MIXED+REBOOT_ISSUED", False), ("IDLE+CLOUD+POWERED_DOWN", True), ("IDLE+POWERED_DOWN", True),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", True), ("IDLE+CLOUD+POWERING_DOWN", False),
        ("DOWN+CLOUD+POWERED_DOWN", False), ("IDLE+POWER_DOWN", False), ("IDLE+DRAIN+POWERED_DOWN", False),
    ],
)  # fmt: skip
def test_only_a_sound_node_may_start_jobs(state: str, fit: bool) -> None:
    assert bool(to_cluster([node("n1", state)], []).node_ok[0]) is fit


def test_what_is_powered_down_boots_or_is_to_reboot_is_not_awake() -> None:
    late = ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", "ALLOCATED+REBOOT_REQUESTED")
    states = ("IDLE", "IDLE+CLOUD+POWERED_DOWN", "IDLE~", *late, "DOWN")
    cluster = to_cluster([node(f"n{i}", state) for i, state in enumerate(states)], [])
    assert cluster.node_ok.tolist() == [True, True, True, True, True, False]
    assert cluster.awake.tolist() == [True, False, False, False, False, False]
    assert to_cluster([node("n1")], []).asleep is None


def test_slots_free_devices_racks_and_models() -> None:
    nodes = [
        node("n1", "MIXED", "gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A),gpu:g2:1(IDX:2)", features="a100,rack7"),
        node("n2", features="v100,rack9"),
        NodeRecord("n3", "IDLE", 8, 2, 1000, 300, "rack7"),
    ]
    cluster = to_cluster(
        nodes,
        [PartitionRecord("gpu", "n[1-2]"), PartitionRecord("old", "n3", up=False)],
        (),
        SiteWords(("a100", "v100")),
    )
    assert cluster.slots and cluster.gpu_exists.tolist() == [[True] * 4, [True] * 4, [False] * 4]
    assert cluster.gpu_free.tolist() == [[False, True, False, True], [True] * 4, [False] * 4]
    assert cluster.rack.tolist() == [0, 1, 0]
    assert cluster.models == ("a100", "v100") and cluster.gpu_model[:2, 0].tolist() == [0, 1]
    assert cluster.cpus_free.tolist() == [8, 8, 6] and cluster.mem_free_mb.tolist() == [1000, 1000, 700]
    assert cluster.partitions["gpu"].tolist() == [True, True, False]
    assert not cluster.partitions["old"].any()


def test_typed_gpus_are_no_slots_and_name_their_model() -> None:
    cluster = to_cluster([NodeRecord("n1", "IDLE", 8, 0, 1, 0, "", "gpu:a100:2,gpu:v100:1", "gpu:a100:1(IDX:1)")], [])
    assert not cluster.slots
    assert cluster.models == ("a100", "v100") and cluster.gpu_model[0].tolist() == [0, 0, 1]
    assert cluster.gpu_free[0].tolist() == [True, False, True]


def test_what_a_partition_bills_for_gpus_is_told_by_model() -> None:
    weights = "CPU=1.0,Mem=0.25G,GRES/gpu=1,GRES/gpu:H100=4.5,License/x=nonsense,,=3"
    cluster = to_cluster([node("n1")], [PartitionRecord("gpu", "n1", billing=weights), PartitionRecord("old", "n1")])
    assert cluster.billing == {"gpu": {"h100": 4.5}}


@pytest.mark.parametrize(
    ("texts", "types"),
    [
        (("gres/gpu:2",), ()),
        (("gres/gpu:a100:2",), ("a100",)),
        (("gres:gpu:a100",), ("a100",)),
        (("gres/gpu:g0:1,gres/gpu:g3:1",), ()),  # a pin of ours
        (("gres/gpu:a100:2,gres/gpu:v100:1",), ("a100", "v100")),
        (("", "gres/gpu:v100=2"), ("v100",)),
        (("gres/gpu:a100:0", "gres/shard:x:2"), ()),
    ],
)
def test_the_models_that_a_request_names_are_known(texts: tuple[str, ...], types: tuple[str, ...]) -> None:
    assert gres.types_in(*texts) == types


def test_a_reservation_closes_its_nodes_while_it_lasts() -> None:
    maintenance = to_reservation(ReservationRecord("m", "n1", 100, 200, ["MAINT", "SPEC_NODES"]))
    assert maintenance.maintenance
    for now, fit in ((99.0, True), (100.0, False), (199.0, False), (200.0, True)):
        cluster = to_cluster([node("n1"), node("n2")], [], [maintenance], now=now)
        assert cluster.node_ok.tolist() == [fit, True]


def test_a_slurm_conf_is_read_for_what_an_older_slurmctld_cant_tell(tmp_path_factory: pytest.TempPathFactory) -> None:
    conf = tmp_path_factory.mktemp("etc") / "slurm.conf"
    conf.write_text(
        "# a comment = nothing\nClusterName=c1 # ours\nSlurmctldHost=ctl(10.0.0.1)\n"
        "SchedulerParameters=disable_job_shrink,bf_interval=30\npriorityflags=accrue_always\nJobSubmitPlugins=lua\n"
    )
    told = older.setup_of(str(conf), "24.11")
    assert told == {
        "release": "24.11.0",
        "cluster": "c1",
        "scheduler": ["disable_job_shrink", "bf_interval=30"],
        "priority_type": "",
        "priority_flags": ["ACCRUE_ALWAYS"],
        "plugins": "lua",
        "topology": "",
    }
    assert older.setup_of(str(conf) + ".none", "24.11")["cluster"] == ""


@pytest.mark.parametrize(
    ("reason", "priority", "found"),
    [
        # With a description of its own a job shows that where its reason stands.
        ("launch failed requeued held", 0, Waits.HELD),
        ("job requeued in held state", 0, Waits.HELD),
        ("JobHoldMaxRequeue", 0, Waits.HELD),
        ("JobHeldUser", None, Waits.HELD),
        ("Resources", 0, Waits.HELD),
        ("Resources", 1, Waits.ROOM),
        ("PartitionTimeLimit", 1, Waits.NEVER),
        ("PartitionDown", 1, Waits.BLOCKED),
    ],
)
def test_who_is_held_is_known_by_his_priority_whatever_is_said_of_him(
    reason: str, priority: int | None, found: Waits
) -> None:
    record = JobRecord(1, 0, "PENDING", "u", priority=priority, reason=reason, per_node="gres/gpu:4")
    assert to_job(record).why is found
    running = JobRecord(1, 0, "RUNNING", "u", priority=0, reason="None")
    assert to_job(running).why is Waits.UNSEEN


def test_a_record_that_no_job_can_be_made_of_is_named_and_the_others_are_read() -> None:
    """Whatever it is: a number that nobody reckons with, of a type that is none."""
    good = JobRecord(7, 100, "PENDING", "u", per_node="gres/gpu:1")
    bad = JobRecord(8, 100, "PENDING", "u", per_node="gres/gpu:1", time_limit_min="soon", cpus=[])  # type: ignore[arg-type]
    unread: list[str] = []
    assert [job.id for job in to_jobs([good, bad, good], PLAIN_WORDS, unread)] == [7, 7]
    (said,) = unread
    assert said.startswith("job 8 could not be read: ") and len(said) <= 200


@pytest.mark.parametrize("nodes", [0, -1, -(2**31)])
def test_a_job_of_no_nodes_asks_for_one(nodes: int) -> None:
    job = to_job(JobRecord(7, 100, "PENDING", "u", per_job="gres/gpu:4", num_nodes=nodes, max_nodes=nodes))
    assert (job.request.min_nodes, job.request.max_nodes) == (1, 0)
    assert job.shape is not None and job.shape.cpus_on_each(0) == 1
