"""A site at work, for tests of the live page. In: a home. Out: a database, pald's view of it, and a real pal-page.

Of the fleet of fleets.py: alice and bob run jobs on n1 to n9, more wait, n12 takes no jobs, n16 is free. What pald
would write it writes here too: decisions, edits, outcomes, the present.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from pal_slurm.config import Config
from pal_slurm.daemon.reasons import MOST_WAITING
from pal_slurm.learning.knowledge import known_apps, score_table
from pal_slurm.model import (
    Action,
    App,
    Cluster,
    Decision,
    Edit,
    EditKind,
    Hint,
    Intent,
    Job,
    JobState,
    Knowledge,
    Lease,
    LeaseAgain,
    OperationKind,
    Outcome,
    Pin,
    Placement,
    Reason,
    Renice,
    Request,
    Requeue,
    Shape,
    Warn,
    homogeneous,
    predict,
)
from pal_slurm.report.present import Present, StartNow, present_of, to_bytes
from pal_slurm.report.why import why_of
from pal_slurm.store import AppRepo, DecisionRepo, JobOutcome, Leadership, Ledger, OutcomeRepo, Store, open_store
from tests.builders import snapshot

PAGE = Path(sys.executable).with_name("pal-page")
CLUSTER = "c"
USERS = ("alice", "bob")
APPS = {"resnet50": "A", "bert-large": "B", "pagerank": "C"}


@dataclass
class Site:
    home: Path
    nodes: int = 16
    slots: int = 4
    running: int = 18
    waiting: int = 12
    texts: Sequence[str] = ()  # what users call things; none: as people do
    settings: dict[str, object] = field(default_factory=dict)

    def make(self, fill: Callable[[Store, Path, float], None] | None = None) -> Site:
        self.home.mkdir(exist_ok=True)
        now = time.time()
        with contextlib.closing(open_store(self.url, create=True)) as store:
            if fill is not None:
                fill(store, self.home / "spool", now)
            AppRepo(store).set([App(name, cls, {}, (1.0, 1.0, 1.1, 1.3)) for name, cls in APPS.items()], "admin", now)
            Leadership(store, CLUSTER).acquire("pald@head", now, 600.0)
            self.show(store, now)
        page = {"listen": "", "view_file": str(self.view), **self.settings}
        config = {"state_dir": str(self.home), "actuator": "pin", "page": {k: v for k, v in page.items() if v}}
        self.config.write_text(yaml.safe_dump(config))
        return self

    @property
    def url(self) -> str:
        return f"sqlite:///{self.home}/pal.sqlite"

    @property
    def view(self) -> Path:
        return self.home / "now.json"

    @property
    def config(self) -> Path:
        return self.home / "pal.yaml"

    def show(self, store: Store, now: float) -> Present:
        """What a cycle of pald leaves behind."""
        cluster, jobs = self.cluster(), self.jobs(now)
        knowledge = Knowledge(score_table(store, Config(), cluster, now), known_apps(store, Config()))
        seen = snapshot(*jobs, cluster=cluster, now=now)
        decided = [self.decide(job, place, cluster, knowledge, now) for place, job in enumerate(seen.pending)]
        DecisionRepo(store, CLUSTER).record(
            why_of(decision, job, seen, knowledge, "pin")
            for decision, job in list(zip(decided, seen.pending, strict=True))[:MOST_WAITING]
        )
        self._started(store, seen.running, cluster, knowledge, now)
        present = present_of(seen, decided, knowledge.apps, cluster=CLUSTER, actuator="pin", policy="pal")
        self.write(replace_present(present, now))
        return present

    def write(self, present: Present) -> None:
        fresh = self.view.with_suffix(".new")
        fresh.write_bytes(to_bytes(present))
        fresh.replace(self.view)

    def cluster(self) -> Cluster:
        empty = homogeneous(self.nodes, self.slots)
        ok, free = empty.node_ok.copy(), empty.gpu_free.copy()
        if self.nodes >= 16:
            ok[11] = False
        for number in range(self.running):
            node, slots = self._place(number)
            free[node, list(slots)] = False
        return replace(empty, node_ok=ok, gpu_free=free, models=("NVIDIA A100",))

    def _place(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Two jobs on each node, from the first on."""
        half = self.slots // 2
        return number // 2, tuple(range(half)) if number % 2 == 0 else tuple(range(half, self.slots))

    def _word(self, number: int, usual: Sequence[str]) -> str:
        return self.texts[number % len(self.texts)] if self.texts else usual[number % len(usual)]

    def jobs(self, now: float) -> list[Job]:
        at = int(now)
        runs = [
            Job(
                id=100 + n, state=JobState.RUNNING, submit=at - 4000 + n, user=self._word(n, USERS), gpu_job=True,
                start=at - 3000 + n, end=at + 4000, shape=Shape(gpus=self.slots // 2), partitions=("gpu",),
                nodes=(f"n{self._place(n)[0] + 1}",), gpus=(self._place(n)[1],), hint=Hint(self._word(n, tuple(APPS))),
            )
            for n in range(self.running)
        ]  # fmt: skip
        waits = [
            Job(
                id=1000 + n, state=JobState.PENDING, submit=at - 600 + n % 500, user=self._word(n, USERS), gpu_job=True,
                shape=Shape(gpus=1 + n % 4), partitions=("gpu",), reason="BeginTime", eligible=at + 500,
                lease=Lease(at + 500, Request()), hint=Hint(self._word(n + 1, tuple(APPS))),
            )
            for n in range(self.waiting)
        ]  # fmt: skip
        return [*runs, *waits]

    def decide(self, job: Job, place: int, cluster: Cluster, knowledge: Knowledge, now: float) -> Decision:
        reason = (Reason.NO_ROOM, Reason.BEHIND_HEAD, Reason.BETTER_GPUS_SOON)[place % 3]
        return Decision(job.id, None, Action.WAIT, reason, rank=place, until=now + 60.0 * (place + 1))

    def _started(
        self, store: Store, running: Sequence[Job], cluster: Cluster, knowledge: Knowledge, now: float
    ) -> None:
        """How the running ones came to be where they are: weighed, pinned, seen."""
        ledger, got, whys = Ledger(store, CLUSTER), [], []
        worse = Placement(("n7",), ((0, 2),), exact=True)
        fence = Leadership(store, CLUSTER).current()
        assert fence is not None
        intents = []
        for job in running[:200]:
            at, app = Placement(job.nodes, job.gpus, exact=True), knowledge.apps.get(job.hint.app)
            ours, theirs = (predict(app, place, cluster, knowledge.scores) for place in (at, worse))
            decision = Decision(job.id, None, Action.START, Reason.BEST_SPAN, at, ours, theirs, 0, worse)
            pending = replace(job, state=JobState.PENDING, nodes=(), gpus=(), start=None)
            whys.append(why_of(decision, pending, snapshot(pending, cluster=cluster, now=now - 3000), knowledge, "pin"))
            intents.append(
                Intent(0, job.submit, Pin(job.id, nodes=job.nodes, slots=job.gpus[0]), fence.fence, now - 3000)
            )
            got.append(
                JobOutcome(
                    job.id, job.submit, job.start or 0, app.cls, job.nodes, job.gpus, app=(job.hint.app or "")[:64],
                    as_pinned=True, step_time=ours, slurm_step_time=theirs, user=job.user[:64],
                )
            )  # fmt: skip
        DecisionRepo(store, CLUSTER).record(whys)
        written = ledger.write(intents)
        ledger.outcome(((intent, Outcome.DONE, "") for intent in written), now - 2999, close=True)
        OutcomeRepo(store, CLUSTER).record(got)

    def edit(self, job: int, nodes: tuple[str, ...] = ("n16",), slots: tuple[int, ...] = (0, 1)) -> None:
        """pald pins one more job."""
        with contextlib.closing(open_store(self.url)) as store:
            term = Leadership(store, CLUSTER).current()
            assert term is not None
            ledger, now = Ledger(store, CLUSTER), time.time()
            [intent] = ledger.write([Intent(0, int(now), Pin(job, nodes=nodes, slots=slots), term.fence, now)])
            ledger.outcome([(intent, Outcome.DONE, "")], now, close=True)
            assert intent.edit.kind is EditKind.PIN

    def move(self, job: int) -> None:
        """pald moves one that runs: warned, requeued, pinned elsewhere, its nice given back."""
        with contextlib.closing(open_store(self.url)) as store:
            term = Leadership(store, CLUSTER).current()
            assert term is not None
            ledger, now, operation = Ledger(store, CLUSTER), time.time(), 0
            steps: tuple[Edit, ...] = (
                Warn(job, signal="USR1"), Requeue(job, until=int(now) + 60), LeaseAgain(job, until=int(now) + 90),
                Pin(job, nodes=("n14",), slots=(1, 2)), Renice(job, nice=0),
            )  # fmt: skip
            for step, edit in enumerate(steps):
                intent = Intent(
                    0, int(now), edit, term.fence, now, operation=operation, kind=OperationKind.MOVE,
                    plan=tuple(one.kind for one in steps), step=step,
                )  # fmt: skip
                [written] = ledger.write([intent])
                ledger.outcome([(written, Outcome.DONE, "")], now, close=step + 1 == len(steps))
                operation = written.operation


def replace_present(present: Present, now: float) -> Present:
    import msgspec

    said = f"{len(present.waiting)} pending, {len(present.waiting)} leased"
    forecasts = {job.job: StartNow(now + 900.0, now + 600.0, now + 1800.0) for job in present.waiting[:500]}
    return msgspec.structs.replace(
        present, ended=now, sentence=said, interval_s=5.0, forecasts=forecasts, forecast_at=now - 10.0
    )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class LivePage:
    """The program itself, on a port or a socket of its own."""

    def __init__(self, site: Site, listen: str = "") -> None:
        self.site = site
        self.port = 0 if listen else free_port()
        self.listen = listen or f"127.0.0.1:{self.port}"
        self.log = site.home / "pal-page.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> LivePage:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PAL_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(PAGE), "--config", str(self.site.config), "--listen", self.listen],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=clean,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def _answers(self) -> bool:
        try:
            return self.get("/health").status in (200, 503)
        except OSError:
            return False

    def connect(self) -> socket.socket:
        if self.port:
            return socket.create_connection(("127.0.0.1", self.port), timeout=30)
        channel = socket.socket(socket.AF_UNIX)
        channel.settimeout(30)
        try:
            channel.connect(self.listen.removeprefix("unix:"))
        except OSError:
            channel.close()
            raise
        return channel

    def get(self, path: str, *headers: tuple[str, str], method: str = "GET") -> Answered:
        link = http.client.HTTPConnection("127.0.0.1", self.port or 1, timeout=60)
        link.sock = self.connect()
        try:
            link.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers:
                link.putheader(name, value)
            link.endheaders()
            answer = link.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            link.close()

    def raw(self, data: bytes) -> bytes:
        """What comes back for these very bytes, until the other side ends it."""
        with self.connect() as channel:
            channel.sendall(data)
            return b"".join(iter(lambda: channel.recv(65536), b""))

    def said(self) -> str:
        return self.log.read_text()

    def cpu_s(self) -> float:
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
