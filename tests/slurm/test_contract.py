"""What every backend promises, tried on a real slurmctld of every release it serves.

One suite: the cli backend on 22.05, 24.11 and 26.05, pyslurm on 26.05. What a release can't do is read from its own
capabilities, and the promise then is that this is told truthfully.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pal_slurm.model import Consent, Given, Waits
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import FORMS, LATER, ThroughCli, ThroughPyslurm, asked_for, backend_of
from tests.slurm.minicluster import Minicluster, wait_for


class Reading:
    def test_the_release_and_its_capabilities_are_told(self, slurm: Slurm, release: str) -> None:
        told = slurm.capabilities()
        assert told.release.startswith(release)
        assert told.restore_untyped is told.repin is (release != "22.05")
        assert told.cross_field is (release == "22.05")
        setup = slurm.setup()
        assert setup.disable_job_shrink
        assert "lua" in setup.plugins
        assert "sched_interval" in setup.scheduler_parameters

    def test_an_idle_cluster_is_all_free(self, slurm: Slurm) -> None:
        cluster = slurm.snapshot().cluster
        assert cluster.node_names == tuple(f"n{i}" for i in range(1, 9))
        assert cluster.slots
        assert cluster.gpu_free.shape == (8, 4)
        assert cluster.gpu_free.all()
        assert cluster.node_ok.all()
        assert cluster.models == ("a100",)
        assert (cluster.cpus_free == cluster.cpus).all() and (cluster.cpus > 0).all()
        assert (cluster.mem_free_mb == cluster.mem_mb).all() and (cluster.mem_mb > 0).all()
        assert cluster.partitions["gpu"].all()

    def test_a_drained_and_a_reserved_node_may_not_start_jobs(self, slurm: Slurm, minicluster: Minicluster) -> None:
        minicluster.drain("n2")
        minicluster.client(
            "scontrol", "create", "reservation", "ReservationName=night", "StartTime=now", "Duration=60",
            "Nodes=n4", "Flags=MAINT", "Users=root",
        )  # fmt: skip
        wait_for(lambda: not slurm.snapshot().cluster.node_ok[3], "n4 is closed")
        snapshot = slurm.snapshot()
        assert [bool(ok) for ok in snapshot.cluster.node_ok] == [True, False, True, False, True, True, True, True]
        (reservation,) = snapshot.reservations
        assert (reservation.name, reservation.nodes, reservation.maintenance) == ("night", frozenset({"n4"}), True)
        assert reservation.start <= time.time() < reservation.end

    def test_a_feature_that_slurm_would_reboot_a_node_for_is_slurms_to_see_to(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        minicluster.client("scontrol", "update", "nodename=n1", "activefeatures=a100")
        try:
            with minicluster.leases():
                jobs = [minicluster.submit("--gres=gpu:1", "-C", word) for word in ("rack1", "a100")]
            told = {job.id: job.slurms for job in slurm.snapshot().pending}
            assert told == dict(zip(jobs, (True, False), strict=True))
        finally:
            minicluster.client("scontrol", "update", "nodename=n1", "activefeatures=a100,rack1")

    def test_requests_are_read_as_shapes(self, slurm: Slurm, minicluster: Minicluster) -> None:
        plain = minicluster.submit(LATER, "-n1", "-c2", "--gres=gpu:2")
        spread = minicluster.submit(LATER, "-N1-3", "-n4", "--gpus=4", "--mem-per-cpu=300")
        memory = minicluster.submit(LATER, "-N2", "--gpus-per-node=2", "--mem=500", "-t", "90")
        task = minicluster.submit(LATER, "-n2", "--gpus-per-task=1")
        gpuwise = minicluster.submit(LATER, "-n1", "--gpus=2", "--cpus-per-gpu=3", "--mem-per-gpu=1000")
        socket = minicluster.submit(LATER, "--sockets-per-node=1", "--gpus-per-socket=1")
        cpu = minicluster.submit(LATER, "-n4")
        jobs = {job.id: job for job in slurm.snapshot().pending}

        shape = jobs[plain].shape
        assert shape and (shape.min_nodes, shape.max_nodes, shape.gpus_per_node) == (1, 1, 2)
        assert shape.cpus_on_each(1) == 2
        shape = jobs[spread].shape
        assert shape and (shape.min_nodes, shape.max_nodes, shape.gpus) == (1, 3, 4)
        assert shape.mem_per_cpu_mb == 300
        shape = jobs[memory].shape
        assert shape and (shape.min_nodes, shape.max_nodes, shape.gpus_per_node) == (2, 2, 2)
        assert shape.mem_on_each(2) == 500
        assert jobs[memory].time_limit_s == 5400
        shape = jobs[task].shape
        assert shape and shape.gpus == 2 and not shape.by_slot
        shape = jobs[gpuwise].shape
        assert shape and shape.gpus == 2 and shape.cpus_on_each(1) >= 6 and shape.mem_on_each(1) >= 2000
        assert jobs[socket].shape is None and jobs[socket].gpu_job
        assert jobs[cpu].shape is None and not jobs[cpu].gpu_job

    def test_what_the_user_wants_is_read(self, slurm: Slurm, minicluster: Minicluster) -> None:
        first = minicluster.submit("-H", "--gres=gpu:1")
        wants = minicluster.submit(
            LATER, "--gres=gpu:1", "-w", "n3", "-x", "n1,n5", "-C", "a100&rack1", "-d", f"afterany:{first}",
            "--exclusive", "--comment=app:resnet", "--requeue",
        )  # fmt: skip
        off = minicluster.submit(LATER, "--gres=gpu:1", "--comment=pal:off app:bert mine", "--no-requeue")
        jobs = {job.id: job for job in slurm.snapshot().pending}
        job = jobs[wants]
        assert (job.required_nodes, job.excluded_nodes, job.features) == ("n3", "n[1,5]", "a100&rack1")
        assert job.dependency.startswith(f"afterany:{first}")
        assert job.exclusive and job.requeue
        assert (job.hint.app, job.hint.off) == ("resnet", False)
        assert (jobs[off].hint.app, jobs[off].hint.off) == ("bert", True)
        assert not jobs[off].exclusive and not jobs[off].requeue
        assert jobs[first].priority == 0 and jobs[first].why is Waits.HELD and jobs[first].reason == "JobHeldUser"
        assert jobs[off].user == "root" and jobs[off].partitions == ("gpu",)
        assert 3500 < (jobs[off].eligible or 0) - jobs[off].submit < 3700

    def test_a_lease_of_lua_is_read_with_the_request_as_it_was(self, slurm: Slurm, minicluster: Minicluster) -> None:
        with minicluster.leases():
            leased = minicluster.submit("--gres=gpu:2", "-n2", "-c2", "--comment=app:resnet", "-H")
            job = slurm.jobs([leased])[leased]
        assert job.lease and not job.lease.own_nodes
        assert 0 < job.lease.end - job.submit <= 600
        assert job.lease.original.per_node.endswith("gpu:2")
        assert job.hint.app == "resnet"

    def test_whether_a_job_may_be_moved_is_read(self, slurm: Slurm, minicluster: Minicluster) -> None:
        wanted = {
            ("--comment=mine pal:move",): Consent(Given.ASKED),
            ("--comment=pal:move=120 pal:move=B:USR1@60",): Consent(Given.ASKED, 120, "USR1", True, 60),
            ("--comment=pal:move pal:stay",): Consent(Given.STAY),
            ("--comment=pal:move=KILL@5",): Consent(Given.UNREAD),
            ("--comment=pal:move", "--no-requeue"): Consent(Given.NO_REQUEUE),
            ("--requeue",): Consent(Given.REQUEUE),
            ("--no-requeue",): Consent(),
            ("--comment=mine",): Consent(),
        }
        with minicluster.leases():
            ids = [minicluster.submit("-H", "--gres=gpu:1", *options) for options in wanted]
            jobs = slurm.jobs(ids)
        assert {options: jobs[job].consent for options, job in zip(wanted, ids, strict=True)} == wanted
        assert {job.id: job.consent for job in slurm.snapshot().pending} == {
            job.id: job.consent for job in jobs.values()
        }

    def test_a_running_job_tells_its_devices(self, slurm: Slurm, minicluster: Minicluster) -> None:
        one = minicluster.submit("-w", "n1", "--gres=gpu:g1:1,gpu:g3:1")
        two = minicluster.submit("-w", "n2,n3", "-N2", "--gpus-per-node=1")
        for job in (one, two):
            minicluster.wait_state(job, "RUNNING")
        snapshot = slurm.snapshot()
        running = {job.id: job for job in snapshot.running}
        assert (running[one].nodes, running[one].gpus) == (("n1",), ((1, 3),))
        assert (running[two].nodes, running[two].gpus) == (("n2", "n3"), ((0,), (0,)))
        assert running[one].start is not None and running[one].cpus_alloc >= 1
        assert [list(map(int, row)) for row in snapshot.cluster.gpu_free[:3]] == [
            [1, 0, 1, 0],
            [0, 1, 1, 1],
            [0, 1, 1, 1],
        ]
        assert snapshot.cluster.cpus_free[0] < snapshot.cluster.cpus[0]

    def test_an_array_is_one_record_that_knows_its_tasks(self, slurm: Slurm, minicluster: Minicluster) -> None:
        array = minicluster.submit(LATER, "-a", "1-3,7,11-200:9%4", "--gpus=1")
        job = next(job for job in slurm.snapshot().pending if job.array_id == array)
        assert job.array_tasks == (1, 2, 3, 7, *range(11, 201, 9))
        assert job.array_limit == 4
        assert job.array_task is None

    def test_a_heterogeneous_job_is_known_as_one(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1", ":", "--gres=gpu:2")
        parts = slurm.snapshot().pending
        assert [part.het for part in parts] == [True, True]
        assert [part.shape for part in parts] == [None, None] and all(part.gpu_job for part in parts)
        assert job in {part.id for part in parts}

    def test_jobs_are_ordered_as_slurm_would_take_them(self, slurm: Slurm, minicluster: Minicluster) -> None:
        ids = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(3)]
        minicluster.client("scontrol", "update", f"jobid={ids[2]}", "priority=4294901765")
        pending = slurm.snapshot().pending
        assert [job.id for job in pending] == [ids[2], ids[0], ids[1]]

    def test_only_the_jobs_asked_for_are_told_and_none_that_is_gone(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        first, second = (minicluster.submit(LATER, "--gres=gpu:1") for _ in range(2))
        assert set(slurm.jobs([first])) == {first}
        assert set(slurm.jobs([first, second, 4_000_000])) == {first, second}
        assert slurm.jobs([]) == {}
        many = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(9)]
        assert set(slurm.jobs([*many, 4_000_000])) == set(many)
        minicluster.client("scancel", str(first))
        assert set(slurm.jobs([first, second])) == {second}

    def test_a_pulse_changes_when_the_queue_does(self, slurm: Slurm, minicluster: Minicluster) -> None:
        before = slurm.pulse()
        job = minicluster.submit(LATER, "--gres=gpu:1")
        after = slurm.pulse()
        assert (after.pending, after.running, after.newest_job) == (before.pending + 1, before.running, job)
        assert after.digest != before.digest
        assert slurm.pulse() == after

    def test_slurms_own_passes_are_counted(self, slurm: Slurm, minicluster: Minicluster) -> None:
        before = slurm.passes()
        minicluster.submit("--gres=gpu:1")
        wait_for(lambda: slurm.passes().main > before.main, "the main scheduler has run")
        now = slurm.passes()
        assert now.backfill >= before.backfill
        assert before.started in (0, now.started) and now.started <= time.time()  # 0 in slurmctld's first seconds
        assert abs(now.told - time.time()) < 60  # the minicluster's clock is this host's
        assert now.rpc_time_us >= before.rpc_time_us


class TestReadingThroughCli(ThroughCli, Reading):
    pass


@pytest.mark.slurm("26.05")
class TestReadingThroughPyslurm(ThroughPyslurm, Reading):
    pass


@pytest.mark.slurm("26.05")
def test_both_backends_tell_the_same(minicluster: Minicluster) -> None:
    for options in (*FORMS.values(), ("-a", "1-9:2%3", "--gpus=1"), ("-N1-3", "--gpus=4", "-n4"), ("--exclusive",)):
        minicluster.submit(LATER, *options, "--comment=app:resnet", "-x", "n1")
    running = minicluster.submit("-N2", "--gpus-per-node=2", "-t", "10")
    minicluster.wait_state(running, "RUNNING")
    with backend_of(minicluster, "cli") as cli, backend_of(minicluster, "pyslurm") as pyslurm:
        through_cli, through_pyslurm = cli.snapshot(), pyslurm.snapshot()
    assert [job.id for job in through_cli.pending] == [job.id for job in through_pyslurm.pending]
    for one_way, other in zip(
        (*through_cli.running, *through_cli.pending), (*through_pyslurm.running, *through_pyslurm.pending), strict=True
    ):
        told = one_way.batch if other.batch is not None else None  # pyslurm tells only whether there is a script
        assert replace(one_way, request=asked_for(one_way), batch=told) == replace(other, request=asked_for(other))
    ours, theirs = through_cli.cluster, through_pyslurm.cluster
    assert (ours.gpu_free == theirs.gpu_free).all() and (ours.rack == theirs.rack).all()
    assert (ours.node_names, ours.features, ours.models) == (theirs.node_names, theirs.features, theirs.models)
    assert (ours.cpus_free == theirs.cpus_free).all() and (ours.mem_free_mb == theirs.mem_free_mb).all()
