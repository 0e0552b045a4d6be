"""A real pald beside a mini-cluster. In: settings by dotted name, signals. Out: what it said, what its ledger holds.

`with Pald(cluster, tmp_path) as pald: pald.start()` runs the program itself, with a database, lock and log of its own;
whatever happens, the process is gone at the end of the block, and when the tests are killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import yaml
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.model import EditKind, Intent, Outcome, Pin
from pal_slurm.store import Ledger, open_store
from tests.slurm.backends import WORKER_PYTHON, backend_of
from tests.slurm.minicluster import LONG_S, Minicluster, wait_for

BIN = Path(sys.executable).parent
Settings = Mapping[str, object]
NOTHING: Settings = {}


class Pald:
    def __init__(self, cluster: Minicluster, home: Path, settings: Settings = NOTHING, *, name: str = "pald") -> None:
        self.cluster = cluster
        self.home = home
        self.name = name
        home.mkdir(exist_ok=True)
        self.config = home / f"{name}.yaml"
        self.log = home / f"{name}.log"
        self.database = home / "pal.sqlite"
        self.alive = cluster.dir / "run" / "pald.alive"
        self.process: subprocess.Popen[bytes] | None = None
        self.world: list[str] = []  # a command that runs pald in surroundings of its own
        self._read = 0
        self._guard: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, object] = {
            "cluster.backend": "pyslurm" if cluster.release == "26.05" else "cli",
            "cluster.bin_dir": str(cluster.bin),
            "cluster.worker_command": [str(cluster.bin / "in-cluster")],
            "cluster.worker_python": WORKER_PYTHON,
            "cluster.timeout_s": 10,
            "actuator": "pin",
            "state_dir": str(home),
            "cycle.interval_s": 0.5,
            "cycle.wake_file": str(cluster.dir / "run" / "pald.wake"),
            "cycle.alive_file": str(self.alive),
            "lease.let_through": False,  # most tests look at leases and pins, with no scores at all
            "budget.edits_per_s": 200,
            "budget.read_share": 0.5,
            "metrics.listen": "",
        }
        self.configure(settings)

    def gives_leases(self) -> bool:
        """The sign of life of a pald that has ended is empty."""
        return self.alive.exists() and self.alive.stat().st_size > 0

    def configure(self, settings: Settings) -> None:
        """Write pal.yaml with these changes, by dotted name; they stay for later calls."""
        self._settings.update(settings)
        tree: dict[str, object] = {}
        for dotted, value in self._settings.items():
            section, _, key = dotted.rpartition(".")
            inner = tree.setdefault(section, {}) if section else tree
            assert isinstance(inner, dict)
            inner[key] = value
        self.config.write_text(yaml.safe_dump(tree), encoding="utf-8")

    # --- the process

    def spawn(self, *options: str, env: Mapping[str, str] = {}) -> Pald:
        """Start it, and wait for nothing."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PAL_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.world, str(BIN / "pald"), "--config", str(self.config), *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**clean, **env}, start_new_session=True,
            )  # fmt: skip
        self._watch(self.process.pid)
        return self

    def start(self, *options: str, env: Mapping[str, str] = {}) -> Pald:
        """Start it and wait until its first cycle is over."""
        self.mark()
        self.spawn(*options, env=env)
        self.wait_said(r"\d+ pending")
        return self

    def once(self, *options: str, env: Mapping[str, str] = {}) -> int:
        """One cycle; the exit code."""
        self.spawn("--once", *options, env=env)
        return self.wait_end()

    def wait_end(self, within: float = 60) -> int:
        assert self.process is not None
        code = self.process.wait(within)
        self._watch(None)
        return code

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.send(signal.SIGTERM)
        return self.wait_end()

    def kill(self) -> None:
        """SIGKILL to it and to its worker, as a power cut would."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait_end(30)

    def _watch(self, group: int | None) -> None:
        """Have a guard kill that process group, whoever it runs as, when these tests are killed: then its input ends
        without a line. None: the guard may go."""
        if self._guard is not None:
            self._guard.communicate(b"\n")
        words = ("sh", "-c", 'read -r _ || kill -s KILL -- "-$0"', str(group))
        self._guard = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True) if group else None

    def __enter__(self) -> Pald:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()
        if error is not None:
            print(f"--- {self.log.name}\n{self.said()[-6000:]}")

    # --- what it says

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def mark(self) -> None:
        """`wait_said` looks at what comes after this."""
        self._read = len(self.said())

    def since_mark(self) -> str:
        return self.said()[self._read :]

    def wait_said(self, pattern: str, within: float = LONG_S) -> str:
        """The first line since the mark that holds the pattern."""
        found: list[str] = []

        def heard() -> bool:
            found[:] = [line for line in self.since_mark().splitlines() if re.search(pattern, line)]
            ended = self.process is not None and self.process.poll() is not None
            assert found or not ended, f"{self.name} ended without saying {pattern!r}: {self.since_mark()[-3000:]}"
            return bool(found)

        wait_for(heard, f"{self.name} says {pattern!r}", within)
        return found[0]

    def wait_cycle(self, within: float = LONG_S) -> str:
        """A cycle that began after this call has ended: the second sentence from now on."""
        self.mark()
        wait_for(lambda: len(re.findall(r"(?m)^<\d>\d+ pending", self.since_mark())) >= 2, "two cycles", within)
        return self.since_mark().splitlines()[-1]

    # --- its ledger

    def ledger(self) -> list[Intent]:
        """Every intent, oldest first."""
        return self._ask(lambda ledger: sorted(ledger.newest(100_000), key=lambda i: i.id))

    def intents(self, job: int, *kinds: EditKind) -> list[Intent]:
        return [i for i in self._ask(lambda ledger: ledger.of_job(job)) if not kinds or i.edit.kind in kinds]

    def _ask(self, question: Callable[[Ledger], list[Intent]]) -> list[Intent]:
        store = open_store(f"sqlite:///{self.database}")
        try:
            return question(Ledger(store, self.cluster_name))
        finally:
            store.close()

    @property
    def cluster_name(self) -> str:
        text = (self.cluster.etc / "slurm.conf").read_text()
        return next(line.split("=", 1)[1] for line in text.splitlines() if line.lower().startswith("clustername="))

    def palctl(self, *words: str) -> str:
        """palctl's answer; it has to succeed. Run in this process: to start one costs more than most answers."""
        result = self.answered(*words)
        assert result.exit_code == 0, f"palctl {' '.join(words)}: {result.exit_code}: {result.exception}{result.output}"
        return result.stdout

    def wait_told(self, text: str, *words: str) -> str:
        """palctl's answer once that is in it; until then it may fail, as for a job that pald has not seen yet."""
        wait_for(lambda: text in self.answered(*words).stdout, f"palctl {' '.join(words)} says {text!r}")
        return self.palctl(*words)

    def answered(self, *words: str) -> Result:
        """The same, whatever it answers."""
        return CliRunner().invoke(palctl, ["--config", str(self.config), *words])

    def run_palctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The program itself, whatever it answers."""
        return subprocess.run(
            [BIN / "palctl", "--config", self.config, *words], capture_output=True, text=True, timeout=90, check=False
        )

    def scores(self, table: Mapping[str, float], *, others: float = 1.0, classes: Sequence[str] = ("A",)) -> None:
        """Import scores: {"n3:1": 0.8} and the same for every other GPU."""
        rows = ["node,slot,class,score"]
        for node in self.cluster.nodes:
            for slot in range(self.cluster.gpus):
                score = table.get(f"{node}:{slot}", others)
                rows += [f"{node},{slot},{cls},{score}" for cls in classes]
        path = self.home / "scores.csv"
        path.write_text("\n".join(rows) + "\n")
        self.palctl("scores", "import", str(path))


class Journal:
    """What slurmctld itself says it did, from now on."""

    def __init__(self, cluster: Minicluster) -> None:
        self._path = cluster.dir / "log" / "slurmctld.log"
        self._from = self._path.stat().st_size

    def text(self) -> str:
        with self._path.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def node_lists(self, job: int) -> list[str]:
        """Every node list that was set for a job, in order; empty: it was cleared."""
        return re.findall(rf"setting req_nodes to (\S*) for JobId={job}\b", self.text())

    def edited(self) -> set[int]:
        """Jobs that anybody edited."""
        return {int(job) for job in re.findall(r"_slurm_rpc_update_job: complete JobId=(\d+)", self.text())}


def pin_by_hand(cluster: Minicluster, jobs: Sequence[int], node: str, slots: tuple[int, ...]) -> None:
    """As pald would, but without a record of it. Where slots can't be asked for or taken back, the node alone."""
    with backend_of(cluster, "cli") as slurm:
        exact = slots if slurm.capabilities().restore_untyped else None
        shapes = {job.id: job.shape for job in slurm.jobs(jobs).values()}
        by_slot = [job for job in jobs if (shape := shapes[job]) and shape.by_slot]
        edits = [Pin(job, nodes=(node,), slots=exact if job in by_slot else None) for job in jobs]
        results = slurm.apply(edits)
    assert {result.outcome for result in results} == {Outcome.DONE}, results


@contextlib.contextmanager
def plain(cluster: Minicluster) -> Iterator[None]:
    """Jobs that are submitted in the block are not ours."""
    lua_settings(cluster, enabled="no")
    try:
        yield
    finally:
        lua_settings(cluster, enabled="yes")


def mark_of(cluster: Minicluster, job: int) -> str:
    """Our mark on a job; empty: it is not ours."""
    text = cluster.client("scontrol", "show", "job", "-o", str(job))
    found = re.search(r"AdminComment=(pal1\{[^}]*\})", text)
    return found[1] if found else ""


def lua_settings(cluster: Minicluster, **changes: str) -> None:
    """Other settings of job_submit.lua, until the cluster is reset; read anew with each submission."""
    path = cluster.etc / "pal_lua.conf"
    lines = [line for line in path.read_text().splitlines() if line.partition(" =")[0] not in changes]
    path.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in changes.items())]) + "\n")


def pin_of(intent: Intent) -> Pin:
    assert isinstance(intent.edit, Pin)
    return intent.edit
