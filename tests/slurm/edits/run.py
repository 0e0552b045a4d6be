"""Submits cases to a real cluster, brings all into one state, edits them, makes room. In: cases. Out: Edited per case.

As in tests/slurm/shapes/run.py each case has a partition and nodes of its own, and all go through the same at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.slurm.edits.records import Record, at, begins, nodes_of, of_cases, records_of, stands
from tests.slurm.edits.rows import Case, Say
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, plain
from tests.slurm.shapes.got import Got
from tests.slurm.shapes.run import USER, Ground, Place, cluster_for, got_of, places, submit_all, wait_all

NODES = 2  # of each partition
ADMIN = "root"
LOCK = "lock"  # a licence that keeps jobs from starting: nothing to pald
PASSES = 4  # that Slurm's scheduler makes before anybody looks at what has become of an edit
QUEUE = (
    "disable_job_shrink,batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue,default_queue_depth=2000,"
    "enable_user_top"
)
TWO_NODES = Ground(
    lambda row, _: range(NODES * row + 1, NODES * (row + 1) + 1),
    lambda rows: (
        "--nodes", str(NODES * rows + 1), "--dbd", "--set", "TrackWCKey=yes",
        "--set", f"Licenses=matlab:1000,{LOCK}:10000",
        "--set", f"SchedulerParameters={QUEUE}", "--set", "PreemptType=preempt/qos", "--set", "PreemptMode=CANCEL",
    ),
    also=lambda nodes: nodes[1:],
    reserves=(2,),
    begins="while [ ! -e HOME/go ]; do sleep 0.2; done",
)  # fmt: skip


@dataclass(frozen=True)
class Edited:
    """What became of one case."""

    got: Got
    said: tuple[str, ...]  # Slurm's answer to each edit
    stands: Mapping[str, str]  # its record (an array's: by task), when everybody had had time to look at the edits
    changed: frozenset[str]  # fields of it that are not as before the edits
    where: tuple[str, ...]  # the nodes on which it ran, as the row names them
    begins: Mapping[str, int]  # begin times to come then, by task, in seconds after the edit
    started: tuple[float, ...]  # when it did, in seconds after there was room; nothing: it did not
    jobs: tuple[int, ...] = field(default=())  # not compared


def cluster_of(cases: Sequence[Case], name: str, release: str) -> Minicluster:
    cluster = cluster_for(cases, name, release, TWO_NODES)
    odd, even = (",".join(cluster.nodes[first::2]) for first in (0, 1))
    for nodes, name in ((odd, "odd"), (even, "even")):
        what = (f"AvailableFeatures={name}", f"ActiveFeatures={name}")
        cluster.client("scontrol", "update", f"NodeName={nodes}", *what)
    for words in (
        "add user bob account=pal", "add account second", f"add user {USER} account=second", "add qos long",
        "add qos urgent preempt=normal priority=1", f"modify user {USER} set qos=normal,long,urgent",
    ):  # fmt: skip
        cluster.client("sacctmgr", "-i", *words.split())
    return cluster


def run_all(cluster: Minicluster, cases: Sequence[Case], home: Path, pald: Pald | None = None) -> dict[str, Edited]:
    """All cases are of one state. `pald`: one that is not running yet."""
    return Run(cluster, cases, home, pald).all()


@dataclass
class Run:
    cluster: Minicluster
    cases: Sequence[Case]
    home: Path
    pald: Pald | None
    crowd: list[int] = field(default_factory=list)  # jobs that keep ours from starting
    ids: dict[str, int] = field(default_factory=dict)  # by case: the job, or the array

    def all(self) -> dict[str, Edited]:
        state = self.cases[0].state
        ground = TWO_NODES
        if state == "c":
            ground = replace(ground, said=("-L", f"{LOCK}:1"))
            lua_settings(self.cluster, lease="120")  # all are submitted before anybody looks
        elif self.pald is not None:
            self.pald.start()
        if state != "e":
            self._crowd(state)
        with ExitStack() as stack:
            lua = plain(self.cluster) if self.pald is None else self.cluster.leases() if state == "c" else nullcontext()
            with lua:
                running = submit_all(stack, self.cluster, self.cases, self.home, ground)
                self._submitted(running)
            self._into(state)
            before = self._records()
            said, when = self._edit()
            if self.pald is not None:
                if state == "c":
                    self.pald.start()
                self.pald.wait_cycle()
                self.pald.wait_cycle()
            self._passes()
            after = self._records()
            room = self._make_room()
            told = wait_all(self.cluster, running, within=200)
        got = got_of(self.cluster, self.cases, self.home, told)
        end = self._records()
        found = {}
        for case, place in zip(self.cases, places(self.cases, self.home, TWO_NODES), strict=True):
            name = case.name
            was, now = stands(before[name], place), stands(after[name], place)
            found[name] = Edited(
                got[name], said[name], now, frozenset(k for k in was.keys() | now.keys() if was.get(k) != now.get(k)),
                nodes_of(end[name], place), begins(after[name], when[name]),
                tuple(sorted(at(one, "StartTime") - room for one in end[name] if one.get("BatchHost"))),
                tuple(int(one["JobId"]) for one in end[name]),
            )  # fmt: skip
        return found

    # --- into the state

    def _crowd(self, state: str) -> None:
        """Somebody else's jobs on all nodes; in (c) somebody has all licences; in (d) one GPU is left."""
        rows = []
        for place in self._places():
            if state == "d":
                rows.append(f"-p {place.partition} -w {place.node(2)} --gres=gpu:4")
                rows.append(f"-p {place.partition} -w {place.node(1)} --gres=gpu:3 -n1")
            elif state != "c":
                rows.append(f"-p {place.partition} -N{NODES} --gres=gpu:4 --exclusive")
        self._others(rows or [f"-p gpu -w {self.cluster.nodes[-1]} -n1 -L {LOCK}:10000"])

    def _others(self, rows: Sequence[str]) -> None:
        with plain(self.cluster):
            lines = [f"sbatch --parsable -J crowd -o /dev/null {row} --wrap 'sleep 3000'" for row in rows]
            ids = [int(word) for word in self.cluster.client("sh", "-c", "\n".join(lines), timeout=60).split()]
        self.crowd += ids
        wait_for(lambda: self._in_state("RUNNING") >= set(ids), "the crowd runs")

    def _in_state(self, state: str) -> set[int]:
        said = self.cluster.client("squeue", "-h", "-r", *([] if state == "all" else ["-t", state]), "-o", "%A")
        return set(map(int, said.split()))

    def _submitted(self, running: Mapping[str, object]) -> None:
        names = {place.job: case.name for case, place in zip(self.cases, self._places(), strict=True)}

        def all_there() -> bool:
            found = (line.split() for line in self.cluster.client("squeue", "-h", "-o", "%F %j").splitlines())
            self.ids = {names[name]: int(number) for number, name in found if name in names}
            return len(self.ids) == len(names)

        wait_for(all_there, "all cases are submitted")

    def _into(self, state: str) -> None:
        if self.pald is not None and state == "c":
            assert self.pald.once() == 0
        if self.pald is not None and state == "b":
            self.pald.wait_cycle()
        if state == "c":
            holder, self.crowd = self.crowd, []
            self._others([f"-p {place.partition} -N{NODES} --gres=gpu:4 --exclusive" for place in self._places()])
            self.cluster.client("scancel", *map(str, holder))
        if state in "de":
            wait_for(lambda: self._those_that_run() == set(self.ids.values()), "one of each runs")
        if state == "e":
            self.cluster.client("scontrol", "requeue", ",".join(map(str, self.ids.values())), user=USER)
            wait_for(lambda: self._in_state("PENDING") >= set(self.ids.values()), "all wait again")
        else:
            self._passes()
        if state != "d":
            (self.home / "go").touch()

    def _those_that_run(self) -> set[int]:
        said = self.cluster.client("squeue", "-h", "-t", "RUNNING", "-o", "%F").split()
        return set(map(int, said)) - set(self.crowd)

    # --- the edits

    def _edit(self) -> tuple[dict[str, tuple[str, ...]], dict[str, float]]:
        said, when = {}, {}
        for case, place in zip(self.cases, self._places(), strict=True):
            said[case.name] = tuple(self._say(case, place, say) for say in case.edits)
            when[case.name] = time.time()
        return said, when

    def _say(self, case: Case, place: Place, say: Say) -> str:
        job = self.ids[case.name]
        number = self.cases.index(case)
        ahead = self.crowd[number] if len(self.crowd) >= len(self.cases) else 0
        words = [word.format(**place.values, job=job, ahead=ahead) for word in say.words]
        if "=" in words[0] or words[0] == "ResetAccrueTime":
            words = ["update", f"jobid={job}", *words]
        command = words if words[0] == "scancel" else ["scontrol", *words]
        done = self.cluster.run(*command, user=ADMIN if say.as_admin else USER)
        lines = "; ".join((done.stderr + done.stdout).strip().splitlines())
        return f"{done.returncode} {re.sub(r'[0-9]+', 'N', lines)}".strip()

    def _make_room(self) -> float:
        """All of it at once: which of two nodes comes free first would be chance. Out: when."""
        closed = self.cases[0].state in "abc"  # in (d) some of its nodes are free already, and this takes long
        if closed:
            self._partitions("DOWN")
        if self.crowd:
            self.cluster.run("scancel", *map(str, self.crowd), timeout=120)
            wait_for(lambda: set(self.crowd).isdisjoint(self._in_state("all")), "the crowd is gone")
        if closed:
            self._partitions("UP")
        room = time.time()
        (self.home / "go").touch()
        for case, place in zip(self.cases, self._places(), strict=True):
            for say in case.after:
                self._say(case, place, say)
        return room

    def _partitions(self, state: str) -> None:
        names = self.cluster.client("sinfo", "-h", "-o", "%R").split()
        self.cluster.client(
            "scontrol", stdin="".join(f"update PartitionName={p} State={state}\n" for p in names), timeout=200
        )

    # --- looking

    def _places(self) -> list[Place]:
        return places(self.cases, self.home, TWO_NODES)

    def _records(self) -> dict[str, list[Record]]:
        return of_cases(records_of(self.cluster), self.ids)

    def _passes(self) -> None:
        """Slurm has looked at its queue a few times."""

        def passes() -> int:
            found = re.search(r"Total cycles: +(\d+)", self.cluster.client("sdiag"))
            return int(found[1]) if found else 0

        first = passes()
        wait_for(lambda: passes() >= first + PASSES, "Slurm's passes")
