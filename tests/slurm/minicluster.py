"""A running mini-cluster, as tests see it: submit, wait, look, break a daemon, put all back.

In: the name of a cluster that scripts/minicluster started. Out: plain values; every wait has a deadline and says
what it waited for. Waits are for conditions, never for a time to pass.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
TOOL = PROJECT / "scripts" / "minicluster"
# Release as tests name it -> --slurm of the tool.
RELEASES = {"22.05": "native", "24.11": "24.11", "26.05": "26.05"}
# Slurm looks at its queue each second, not every two; options of a test come later, and win.
QUICK = (
    "--set",
    "SchedulerParameters=disable_job_shrink,batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue",
)
LONG_S = 100.0  # longer than anything takes on a machine that is ten times too busy: only a failure waits so long
SELDOM_S = 0.25  # to ask Slurm is work for a machine that is busy with other tests: what takes long is asked less often
FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"})


def tool(*argv: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """scripts/minicluster ARGV, whatever it answers."""
    return subprocess.run([TOOL, *argv], capture_output=True, text=True, timeout=timeout, check=False)


def wait_for(condition: Callable[[], bool], what: str, within: float = LONG_S, every: float = 0.05) -> None:
    """Until `condition()`; a failed assertion with `what` in it at the deadline."""
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < within, f"not within {within:.0f} s: {what}"
        time.sleep(max(every, min(waited / 8, SELDOM_S)))


def _thread_states(pid: int) -> Iterator[str]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        yield (task / "stat").read_text().rpartition(")")[2].split()[0]


def indices(text: str) -> dict[str, str]:
    """Node -> what stands behind IDX in one record of `scontrol show job -d`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "GRES" in words and "Nodes" in words:
            lists = [part.split(")")[0] for part in words["GRES"].split("IDX:")[1:]]
            found[words["Nodes"]] = ",".join(part for part in lists if part)
    return found


class Minicluster:
    """One cluster. `bin` holds the clients that the cli backend may call."""

    def __init__(self, name: str, release: str, directory: Path) -> None:
        self.name = name
        self.release = release
        self.dir = directory
        self.bin = directory / "bin"
        self.etc = directory / "etc"
        spec = json.loads((directory / "spec.json").read_text())
        self.nodes: list[str] = [f"n{i}" for i in range(1, spec["nodes"] + 1)]
        self.gpus: int = spec["gpus"]
        self._pristine = {path: path.read_bytes() for path in self.etc.iterdir() if path.is_file()}

    @classmethod
    def up(cls, name: str, release: str, *options: str) -> "Minicluster":
        until = ("--until-gone", str(os.getpid()))  # also when this process is killed
        done = tool("up", "--name", name, "--slurm", RELEASES[release], *until, *QUICK, *options, timeout=900)
        assert done.returncode == 0, f"minicluster up {name}: {done.stderr}"
        listed: list[dict[str, object]] = json.loads(tool("list", "--json").stdout)
        about = next(item for item in listed if item["name"] == name)
        return cls(name, release, Path(str(about["directory"])))

    def down(self) -> None:
        done = tool("down", "--name", self.name)
        assert done.returncode == 0, done.stderr

    # --- clients

    def run(
        self, *argv: str, user: str | None = None, stdin: str | None = None, timeout: float = 30
    ) -> subprocess.CompletedProcess[str]:
        """A command inside the cluster, whatever its exit code."""
        entry = [str(self.bin / "in-cluster"), *(["--user", user] if user else [])]
        return subprocess.run(
            [*entry, *argv],
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            cwd="/tmp",
        )

    def client(self, *argv: str, user: str | None = None, stdin: str | None = None, timeout: float = 30) -> str:
        """The output of a command that has to succeed."""
        done = self.run(*argv, user=user, stdin=stdin, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout

    # --- jobs

    def submit(self, *options: str, wrap: str = "sleep 300", user: str | None = None) -> int:
        """sbatch of a one-line script; the job's id."""
        out = self.client("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", wrap, user=user)
        return int(out.split(";")[0])

    def submit_many(self, count: int, *options: str, wrap: str = "sleep 300", user: str | None = None) -> list[int]:
        """So many alike, one right after the other: nothing of ours stands between."""
        one = shlex.join(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", wrap])
        script = f"for i in $(seq {count}); do {one}; done"
        return [int(word) for word in self.client("sh", "-c", script, user=user, timeout=60 + count).split()]

    def fields(self, job: int) -> dict[str, str]:
        """`scontrol show job -d` as a dictionary. Only for jobs whose texts (comment, name) hold no blanks."""
        words = self.client("scontrol", "show", "job", "-d", "-o", str(job)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job: int) -> str:
        """JobState, or an empty word when Slurm has forgotten the job."""
        done = self.run("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T")
        return done.stdout.strip()

    def wait_state(self, job: int, *states: str, within: float = LONG_S) -> str:
        """Wait until the job is in one of the states."""
        seen = [""]

        def there() -> bool:
            seen[0] = self.state(job)
            assert seen[0] not in FINAL or seen[0] in states, f"job {job} is {seen[0]}, waited for {', '.join(states)}"
            return seen[0] in states

        wait_for(there, f"{self.release}: job {job} in {' or '.join(states)}", within)
        return seen[0]

    def gpu_indices(self, job: int) -> dict[str, str]:
        """Node -> what `scontrol show job -d` says after IDX, e.g. {"n1": "1,3"}. One node per line in that output."""
        return indices(self.client("scontrol", "show", "job", "-d", str(job)))

    # --- nodes

    def node_state(self, node: str) -> str:
        return self.client("sinfo", "-h", "-n", node, "-p", "gpu", "-o", "%T").strip()

    def drain(self, node: str) -> None:
        self.client("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")

    def resume(self, node: str) -> None:
        self.client("scontrol", "update", f"nodename={node}", "state=resume")

    # --- daemons

    def pid(self, daemon: str = "slurmctld") -> int:
        pids: dict[str, int] = json.loads((self.dir / "run" / "pids.json").read_text())
        return pids[daemon]

    def daemon(self, order: str, daemon: str = "slurmctld") -> None:
        """start, stop, kill or restart; a started slurmctld is waited for."""
        done = tool("daemon", "--name", self.name, order, daemon)
        assert done.returncode == 0, done.stderr
        if order in ("start", "restart") and daemon == "slurmctld":
            self.wait_answer()

    def restart(self, daemon: str = "slurmctld") -> None:
        self.daemon("restart", daemon)

    def wait_answer(self, within: float = LONG_S) -> None:
        wait_for(lambda: " UP" in self.run("scontrol", "ping").stdout, f"{self.name}: slurmctld answers", within)

    @contextmanager
    def frozen(self, daemon: str = "slurmctld") -> Iterator[int]:
        """SIGSTOP the daemon for the length of the block."""
        pid = self.pid(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            # A busy machine stops its threads one after the other; one that still runs would answer.
            wait_for(lambda: all(state == "T" for state in _thread_states(pid)), f"{daemon} has stopped")
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def stopped(self, daemon: str = "slurmctld") -> Iterator[None]:
        """Without that daemon for the length of the block."""
        self.daemon("stop", daemon)
        try:
            yield
        finally:
            self.daemon("start", daemon)

    # --- configuration

    @contextmanager
    def leases(self) -> Iterator[None]:
        """job_submit.lua believes for the block (a minute at most) that pald is alive, and gives leases."""
        alive = self.dir / "run" / "pald.alive"
        alive.write_text(f"{int(time.time())}\n")
        try:
            yield
        finally:
            alive.unlink(missing_ok=True)

    def reconfigure(self, **files: str) -> None:
        """Write files of DIR/etc (slurm_conf="..." is slurm.conf) and have Slurm read them."""
        for name, text in files.items():
            (self.etc / name.replace("_", ".")).write_text(text)
        self.client("scontrol", "reconfigure")

    def reset(self) -> None:
        """As new: no jobs, no reservations, all nodes idle, all daemons running, the first configuration."""
        changed = [path for path, was in self._pristine.items() if not path.exists() or path.read_bytes() != was]
        for path in changed:
            path.write_bytes(self._pristine[path])
        for name in ("pald.alive", "pald.wake"):
            (self.dir / "run" / name).unlink(missing_ok=True)
        pids = json.loads((self.dir / "run" / "pids.json").read_text())
        for daemon in ("slurmctld", *self.nodes):
            if daemon not in pids:
                self.daemon("start", daemon)
            else:
                os.kill(pids[daemon], signal.SIGCONT)
        if any(path.name == "slurm.conf" for path in changed):
            self.wait_answer()
            self.restart()
        self._cancel_all()
        wait_for(self._as_new, f"{self.name}: nothing reserved, all nodes idle", 60)

    def _cancel_all(self) -> None:
        cancelled: set[str] = set()

        def empty() -> bool:
            # By id: 26.05's scancel knows no user `nobody`. %F is the id of a whole array.
            done = self.run("squeue", "-h", "-o", "%F")
            if done.returncode != 0:
                return False  # slurmctld does not answer yet
            jobs = sorted(set(done.stdout.split()))
            new = [job for job in jobs if job not in cancelled]
            for first in range(0, len(new), 500):
                self.run("scancel", "-f", *new[first : first + 500])
            cancelled.update(new)
            return not jobs

        wait_for(empty, f"{self.name}: queue empty")

    def _as_new(self) -> bool:
        """Nothing is reserved and all nodes are idle, at one look; what is not so is put right."""
        said = self.client("sh", "-c", "scontrol show reservation -o; sinfo -h -N -p gpu -o '%N %t'").splitlines()
        reserved = [line.split()[0] for line in said if line.startswith("ReservationName=")]
        for reservation in reserved:
            self.client("scontrol", "delete", reservation)
        states = {words[0]: words[1] for line in said if len(words := line.split()) == 2 and words[0] in self.nodes}
        broken = [node for node, state in states.items() if state != "idle"]
        for node in broken:
            if not states[node].startswith(("comp", "alloc", "mix")):
                self.run("scontrol", "update", f"nodename={node}", "state=resume")
        return not reserved and not broken


def keep_logs(cluster: Minicluster, target: Path) -> None:
    """Copy the logs away before `down` removes them."""
    shutil.copytree(cluster.dir / "log", target, dirs_exist_ok=True)
