"""A cluster of SimSlurm with the face of a Minicluster. In: sbatch options, the few commands of suites. Out: jobs.

Its time is the wall clock's plus what was skipped: each look from outside moves it on a little, so a test that waits
for a condition waits for a moment only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

from pal_slurm.model import Edit, EditResult, Job, Snapshot
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.sim.slurm.machine import Node, bits
from pal_slurm.sim.slurm.manners import Manners, exits, requeues
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.sim.slurm.updates import update
from pal_slurm.slurm.capabilities import parse_release
from pal_slurm.slurm.edits.rewrite import NOW, Rewrite
from pal_slurm.slurm.nodes import ReservationRecord, SiteWords
from pal_slurm.slurm.nodeset import expand, fold
from pal_slurm.slurm.port import Capabilities, Left, Passes, Pulse, SchedulerSetup, Series, unbounded
from pal_slurm.slurm.records import JobRecord

LOOK_S = 0.1
QUICK = SlurmSetup(
    parameters="disable_job_shrink,batch_sched_delay=0,sched_interval=2,bf_interval=2",
    main_s=2.0,
    backfill_s=2.0,
    limits_kill=False,
)


def nodes(count: int, gpus: int, features: str = "a100,rack1", shards: int = 0) -> list[Node]:
    """As the mini-cluster makes them."""
    cores = max(4, 8 * gpus // 2)
    return [Node(f"n{i + 1}", gpus, 2 * cores, 8000 * cores, features, shards=shards) for i in range(count)]


def manners(script: str) -> Manners:
    """What the traps of a shell script do; a signal that nobody minds kills the steps, and spares the shell."""
    term = re.search(r"trap 'sleep ([0-9]+)[^']*' TERM", script)
    on_signal = re.search(r"trap '([^']*)' USR1", script)
    words = on_signal[1] if on_signal else "nothing"
    answer = requeues if "requeue" in words else exits if "exit" in words else None
    return Manners(float(term[1]) if term else 0.1, 0.1, answer)


EDITED = {"ReqNodeList": "nodes", "ExcNodeList": "excluded", "TresPerNode": "tres_per_node"}
NUMBERS = ("NumNodes", "StartTime")


class SimCluster:
    """What suites use of a Minicluster."""

    def __init__(self, release: str = "26.05", count: int = 8, gpus: int = 4, shards: int = 0) -> None:
        self.release = release
        self.nodes = [f"n{i + 1}" for i in range(count)]
        self.gpus = gpus
        setup = replace(QUICK, release=f"{release}.5")
        self.controller = Controller(nodes(count, gpus, shards=shards), {"gpu": self.nodes}, setup, time.time())
        self.slurm = SteppingSlurm(self)
        self._skipped = 0.0
        self._leases = False
        self.controller.plugin = Leasing(lambda now: self._leases)

    def pass_time(self, seconds: float = LOOK_S) -> None:
        self._skipped += seconds
        self.controller.run_until(max(self.controller.now, time.time() + self._skipped))

    # --- jobs

    def submit(self, *options: str, wrap: str = "sleep 300", user: str | None = None) -> int:
        self.pass_time(0.0)
        made = Sbatch(self.release, self.controller.now).read(options)
        made.record.user = user or "root"
        lasts = re.search(r"sleep ([0-9]+)", wrap)
        seconds = float(lasts[1]) if lasts else 1.0
        return self.controller.submit(
            made.record,
            lambda job: seconds,
            begin=made.begin,
            held=made.held,
            waits_for=made.after,
            recounts=made.recounts,
            said_requeue=made.said_requeue,
            manners=manners(wrap),
        )

    def state(self, job: int) -> str:
        self.pass_time()
        found = self.controller.find(job)
        return found.record.state if found else self.controller.ended.get(job, "")

    def wait_state(self, job: int, *states: str, within: float = 30.0) -> str:
        for _ in range(int(within / LOOK_S)):
            if (state := self.state(job)) in states:
                return state
        found = self.controller.find(job)
        raise AssertionError(f"job {job} not {' or '.join(states)}: {found.record if found else self.state(job)}")

    def gpu_indices(self, job: int) -> dict[str, str]:
        found = self.controller.find(job)
        assert found is not None
        return {self.controller.nodes[p.row].name: ",".join(map(str, bits(p.slots))) for p in found.parts}

    def fields(self, job: int) -> dict[str, str]:
        """`scontrol show job`, as far as suites look."""
        self.pass_time()
        found = self.controller.find(job)
        assert found is not None
        r = found.record
        told = {
            "ReqNodeList": r.required_nodes, "TresPerNode": r.per_node, "TresPerJob": r.per_job,
            "TresPerTask": r.per_task, "CpusPerTres": r.cpus_per_gpu,
        }  # fmt: skip
        counts = {"NumCPUs": str(r.cpus or 1), "NumTasks": str(r.ntasks), "CPUs/Task": str(r.cpus_per_task or 1)}
        return {key: value or "(null)" for key, value in told.items()} | counts | {"Reason": r.reason}

    # --- admins

    def drain(self, node: str) -> None:
        self.controller.set_node(node, "DRAIN")

    def resume(self, node: str) -> None:
        self.controller.set_node(node, "")

    def restart(self, daemon: str = "slurmctld") -> None:
        assert daemon == "slurmctld"
        self.controller.restart()

    @contextmanager
    def leases(self) -> Iterator[None]:
        self._leases = True
        try:
            yield
        finally:
            self._leases = False

    def client(self, *argv: str) -> str:
        """The commands that suites give; any other is an error of the suite's caller."""
        self.pass_time(0.0)
        words = dict(word.partition("=")[::2] for word in argv[1:])
        if argv[0] == "scancel":
            for number in argv[1:]:
                self.controller.cancel(int(number))
        elif argv[:2] == ("scontrol", "requeue"):
            self.controller.requeue(int(argv[2]))
        elif argv[:2] in (("scontrol", "hold"), ("scontrol", "uhold")):
            self.controller.hold(int(argv[2]), "JobHeldUser" if argv[1] == "uhold" else "JobHeldAdmin")
        elif argv[:2] == ("scontrol", "release"):
            self.controller.release(int(argv[2]))
        elif argv[:3] == ("scontrol", "create", "reservation"):
            now = int(self.controller.now)
            flags = words["Flags"].split(",")
            end = now + 60 * int(words["Duration"])
            self.controller.reserve(ReservationRecord(words["ReservationName"], words["Nodes"], now, end, flags))
        elif argv[:2] == ("scontrol", "update") and words.keys() <= {"update", "jobid", "priority"}:
            job = self.controller.find(int(words["jobid"]))
            assert job is not None
            job.record.priority = int(words["priority"])
            job.changed()
        elif argv[:2] == ("scontrol", "update") and words.keys() <= EDITED.keys() | {"update", "JobId", *NUMBERS}:
            texts = {name: words[key] for key, name in EDITED.items() if key in words}
            least, _, most = words.get("NumNodes", "").partition("-")
            numbers = (int(least), int(most or least)) if least else (None, None)
            begin = NOW if "StartTime" in words else None
            update(self.controller, words["JobId"], Rewrite(texts, begin, *numbers))
        else:
            raise NotImplementedError(" ".join(argv))
        return ""


class SteppingSlurm:
    """The port; each call lets a moment pass."""

    def __init__(self, cluster: SimCluster) -> None:
        self.name, self.keeps_at_once = "sim", 64
        self._cluster = cluster
        self.inner = SimSlurm(cluster.controller, SiteWords(models=("a100", "v100")))

    def capabilities(self) -> Capabilities:
        return self.inner.capabilities()

    def setup(self) -> SchedulerSetup:
        return self.inner.setup()

    def snapshot(self) -> Snapshot:
        self._cluster.pass_time()
        return self.inner.snapshot()

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        self._cluster.pass_time()
        return self.inner.jobs(ids)

    def movable(self, qos: Collection[str], partitions: Collection[str]) -> None:
        self.inner.movable(qos, partitions)

    def apply(self, edits: Sequence[Edit], left_s: Left = unbounded, series: Series | None = None) -> list[EditResult]:
        self._cluster.pass_time()
        return self.inner.apply(edits, left_s, series)

    def bound(self, jobs: Sequence[int]) -> dict[int, str]:
        return self.inner.bound(jobs)

    def lift(self, jobs: Sequence[int], left_s: Left = unbounded) -> None:
        self._cluster.pass_time()
        self.inner.lift(jobs, left_s)

    def pulse(self) -> Pulse:
        self._cluster.pass_time()
        return self.inner.pulse()

    def passes(self) -> Passes:
        self._cluster.pass_time()
        return self.inner.passes()

    def close(self) -> None:
        self.inner.close()


class Sbatch:
    """sbatch's options, as far as suites use them. In: words. Out: a record, and what stands beside it."""

    SHORT: ClassVar = {
        "-n": "ntasks", "-c": "cpus-per-task", "-N": "nodes", "-t": "time", "-w": "nodelist", "-x": "exclude",
        "-C": "constraint", "-d": "dependency", "-a": "array", "-p": "partition", "-H": "hold", "-J": "job-name",
        "-A": "account",
    }  # fmt: skip
    FLAGS = frozenset({"hold", "exclusive", "requeue", "no-requeue"})

    def __init__(self, release: str, now: float) -> None:
        self.separator = "gres/gpu" if parse_release(release) >= (24, 11, 0) else "gres:gpu"
        self.now = now
        self.record = JobRecord(0, 0, "PENDING", "root", time_limit_min=60, requeue=True, command="wrap")
        self.begin = 0.0
        self.held = self.recounts = False
        self.said_requeue: bool | None = None
        self.after: tuple[int, ...] = ()

    def read(self, options: Sequence[str]) -> Sbatch:
        words = iter(options)
        for word in words:
            name, given, value = word.removeprefix("--").partition("=")
            if not word.startswith("--"):
                name, value = self.SHORT[word[:2]], word[2:]
                given = value
            if not given and name not in self.FLAGS:
                value = next(words)
            getattr(self, f"_{name.replace('-', '_')}", self._other)(value, name)
        r = self.record
        if r.ntasks is None:
            r.ntasks = max(1, (r.num_nodes or 1) * (r.ntasks_per_node or 1))
        r.cpus = r.ntasks * (r.cpus_per_task or 1)
        return self

    def _other(self, value: str, name: str) -> None:
        numbers = {"ntasks": "ntasks", "cpus-per-task": "cpus_per_task", "ntasks-per-node": "ntasks_per_node"}
        numbers |= {"mem": "mem_per_node_mb", "mem-per-cpu": "mem_per_cpu_mb", "time": "time_limit_min"}
        numbers |= {"mincpus": "min_cpus_per_node"}
        texts = {"constraint": "features", "partition": "partition", "comment": "comment", "reservation": "reservation"}
        texts |= {"job-name": "name", "account": "account"}
        tres = {"gres": "per_node", "gpus-per-node": "per_node", "gpus": "per_job", "gpus-per-task": "per_task"}
        tres |= {"gpus-per-socket": "per_socket", "cpus-per-gpu": "cpus_per_gpu", "mem-per-gpu": "mem_per_gpu"}
        if name in numbers:
            setattr(self.record, numbers[name], int(value))
        elif name in texts:
            setattr(self.record, texts[name], value)
        elif name in tres:
            items = (item.removeprefix("gpu:") for item in value.split(","))
            setattr(self.record, tres[name], ",".join(f"{self.separator}:{item}" for item in items))
        elif name != "sockets-per-node":
            raise NotImplementedError(f"--{name}={value}")

    def _nodes(self, value: str, _: str) -> None:
        least, _, most = value.partition("-")
        self.record.num_nodes, self.record.max_nodes = int(least), int(most or least)

    def _nodelist(self, value: str, _: str) -> None:
        self.record.required_nodes = fold(expand(value))

    def _exclude(self, value: str, _: str) -> None:
        self.record.excluded_nodes = fold(expand(value))

    def _array(self, value: str, _: str) -> None:
        self.record.array_tasks, _, limit = value.partition("%")
        self.record.array_limit = int(limit) if limit else None

    def _dependency(self, value: str, _: str) -> None:
        self.record.dependency = f"{value}(unfulfilled)"
        self.after = tuple(int(word) for word in value.split(":")[1:])

    def _begin(self, value: str, _: str) -> None:
        hours = re.fullmatch(r"now(?:\+([0-9]+)(hour|minutes?|seconds?|))?", value)
        assert hours, value
        each = {"h": 3600, "m": 60}.get((hours[2] or "s")[0], 1)
        self.begin = self.now + each * int(hours[1] or 0)

    def _hold(self, _value: str, _: str) -> None:
        self.held = True

    def _exclusive(self, _value: str, _: str) -> None:
        self.record.exclusive = True

    def _requeue(self, _value: str, _: str) -> None:
        self.record.requeue = self.said_requeue = True

    def _no_requeue(self, _value: str, _: str) -> None:
        self.record.requeue = self.said_requeue = False

    def _ntasks_per_gpu(self, value: str, _: str) -> None:
        gpus = (self.record.per_job or self.record.per_node).rpartition(":")[2] or "1"
        self.record.ntasks = int(value) * int(gpus)
        self.recounts = True
