"""The compose cluster as tests see it: run things on its hosts, submit, wait, take hosts away and bring them back.

In: the name of a project that scripts/test-compose started. Out: plain values; every wait has a deadline and says what
it waited for.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.slurm.minicluster import FINAL, PROJECT, wait_for

GPUS = 4
DAEMONS = ("mariadb", "slurmdbd", "slurmctld", "pald", "page", "deadman", "login")


def docker(*words: str, timeout: float = 120, stdin: str | None = None) -> str:
    """docker WORDS; it has to succeed."""
    done = subprocess.run(["docker", *words], input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"docker {' '.join(words)}: {done.returncode}: {done.stderr or done.stdout}"
    return done.stdout


class Hosts:
    def __init__(self, project: str, nodes: int) -> None:
        self.project = project
        self.nodes = [f"n{i}" for i in range(1, nodes + 1)]
        self._settings = self.run("login", "cat", "/etc/pal-slurm/pal.yaml").stdout

    # --- hosts

    def container(self, host: str) -> str:
        """`n3` is the third compute host; other hosts have their service's name."""
        index = host.removeprefix("n")
        return f"{self.project}-compute-{index}" if index.isdigit() else f"{self.project}-{host}-1"

    def about(self, host: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(docker("inspect", self.container(host)))
        return found[0]

    def health(self, host: str) -> str:
        return str(self.about(host)["State"].get("Health", {}).get("Status", ""))

    def do(self, order: str, *hosts: str) -> None:
        """stop, start, kill, restart, pause or unpause."""
        docker(order, *(["-t", "20"] if order in ("stop", "restart") else []), *map(self.container, hosts))

    @property
    def network(self) -> str:
        return f"{self.project}_cluster"

    def cut(self, host: str) -> None:
        docker("network", "disconnect", self.network, self.container(host))

    def join(self, host: str) -> None:
        alias = [] if host in self.nodes else ["--alias", host]
        docker("network", "connect", *alias, self.network, self.container(host))

    @contextmanager
    def without(self, host: str, how: str) -> Iterator[None]:
        """For the block the host is away: `stop`, `kill`, `pause` or `cut`."""
        back = {"stop": "start", "kill": "start", "pause": "unpause"}
        self.cut(host) if how == "cut" else self.do(how, host)
        try:
            yield
        finally:
            self.join(host) if how == "cut" else self.do(back[how], host)

    def log(self, host: str) -> str:
        """All that the host's daemon said; both streams."""
        done = subprocess.run(
            ["docker", "logs", self.container(host)], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def wait_healthy(self, *hosts: str, within: float = 90) -> None:
        for host in hosts:
            wait_for(lambda host=host: self.health(host) == "healthy", f"{host} is healthy", within)  # type: ignore[misc]

    # --- commands

    def run(
        self, host: str, *argv: str, user: str = "root", stdin: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A command on a host, whatever its exit code."""
        at = "/home/" + user if user in ("alice", "bob") else "/"
        return subprocess.run(
            ["docker", "exec", "-i", "-u", user, "-w", at, self.container(host), *argv],
            input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def client(self, *argv: str, user: str = "root") -> str:
        """The output of a command on the login host, which has to succeed."""
        done = self.run("login", *argv, user=user)
        assert done.returncode == 0, f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout

    # --- jobs

    def submit(self, *options: str, wrap: str = "sleep 300", user: str = "alice", output: str = "/dev/null") -> int:
        out = self.client("sbatch", "--parsable", "-o", output, *options, "--wrap", wrap, user=user)
        return int(out.split(";")[0])

    def state(self, job: int) -> str:
        return self.run("login", "squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T").stdout.strip()

    def wait_state(self, job: int, *states: str, within: float = 40) -> str:
        seen = [""]

        def there() -> bool:
            seen[0] = self.state(job)
            assert seen[0] not in FINAL or seen[0] in states, f"job {job} is {seen[0]}, waited for {', '.join(states)}"
            return seen[0] in states

        wait_for(there, f"job {job} in {' or '.join(states)}", within)
        return seen[0]

    def fields(self, job: int) -> dict[str, str]:
        words = self.client("scontrol", "show", "job", "-d", "-o", str(job)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def gpu_indices(self, job: int) -> dict[str, str]:
        """Node -> device indices of a running job, e.g. {"n1": "1,3"}."""
        found: dict[str, str] = {}
        for line in self.client("scontrol", "show", "job", "-d", str(job)).splitlines():
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            if "GRES" in words and "Nodes" in words:
                lists = [part.split(")")[0] for part in words["GRES"].split("IDX:")[1:]]
                indices = ",".join(part for part in lists if part)
                found |= dict.fromkeys(self.client("scontrol", "show", "hostnames", words["Nodes"]).split(), indices)
        return found

    def edits(self, job: int) -> list[dict[str, Any]]:
        """What pald wrote about the job, oldest first."""
        done = self.run("login", "palctl", "why", "--json", str(job))
        if done.returncode != 0:
            return []
        told: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
        return sorted(told["edits"], key=lambda e: int(e["id"]))

    def kinds(self, job: int) -> list[str]:
        return [str(e["edit"]["kind"]) for e in self.edits(job)]

    # --- nodes and pald

    def node_state(self, node: str) -> str:
        return self.client("sinfo", "-h", "-n", node, "-o", "%T").strip()

    def scores(self, table: Mapping[str, float], others: float = 1.0) -> None:
        """{"n3:1": 0.8}, class A, and `others` for every other GPU."""
        rows = ["node,slot,class,score,measured_at"]  # by the time: a file that was imported before changes nothing
        now = datetime.now(UTC).isoformat()
        for node in self.nodes:
            rows += [f"{node},{i},A,{table.get(f'{node}:{i}', others)},{now}" for i in range(GPUS)]
        done = self.run("login", "sh", "-c", "cat >/tmp/scores.csv", stdin="\n".join(rows) + "\n")
        assert done.returncode == 0, done.stderr
        self.client("palctl", "scores", "import", "/tmp/scores.csv")

    def known(self, table: Mapping[str, float]) -> None:
        """Scores that pald has looked at: before that nothing is better than Slurm's own choice, and jobs pass."""
        self.scores(table)
        since = int(self.client("date", "+%s"))
        beat = ("head", "-n", "1", "/run/pal-slurm/alive")
        wait_for(lambda: int(self.client(*beat)) >= since + 3, "a cycle of pald's has begun since")

    @contextmanager
    def settings(self, line: str) -> Iterator[None]:
        """One line more in pal.yaml for the block; pald reads it within a second, and then makes a cycle."""
        file = "/etc/pal-slurm/pal.yaml"
        self.run("login", "sh", "-c", f"cp -p {file} {file}.kept && echo '{line}' >>{file}")
        self.wait_reloaded()
        try:
            yield
        finally:
            self.run("login", "sh", "-c", f"cat {file}.kept >{file} && rm {file}.kept")

    def wait_reloaded(self) -> None:
        self.client("sleep", "2")  # what looks at the file does so once a second
        since = int(self.client("date", "+%s"))
        wait_for(lambda: since - self.beat() <= 0, "a cycle of pald's has ended since")

    def beat(self) -> int:
        """When pald gave its last sign of life."""
        return int(self.run("slurmctld", "sh", "-c", "head -n 1 /run/pal-slurm/alive || echo 0").stdout or 0)

    def silence(self) -> int:
        """Seconds since pald's last sign of life, which job_submit.lua looks at."""
        beat = "echo $(($(date +%s) - $(head -n 1 /run/pal-slurm/alive || echo 0)))"
        return int(self.run("slurmctld", "sh", "-c", beat).stdout or "1000000")

    def pald_places(self) -> bool:
        """pald leads, and job_submit.lua gives leases: its sign of life is of the last seconds."""
        return self.silence() <= 6

    def wait_pald(self, within: float = 90) -> None:
        wait_for(self.pald_places, "pald leads and places jobs", within)

    def reset(self) -> None:
        """All hosts up and on the network, no jobs, nodes idle, pald at work as it was set up."""
        for host in (*DAEMONS, *self.nodes):
            state = self.about(host)
            if state["State"]["Paused"]:
                self.do("unpause", host)
            if not state["State"]["Running"]:
                self.do("start", host)
            if not state["NetworkSettings"]["Networks"]:
                self.join(host)
        self.wait_healthy("mariadb", "slurmdbd", "slurmctld")
        jobs = sorted(set(self.client("squeue", "-h", "-o", "%F").split()))
        if jobs:
            self.run("login", "scancel", "-f", *jobs)
        self._idle()
        if self.run("login", "cat", "/etc/pal-slurm/pal.yaml").stdout != self._settings:
            self.run("login", "sh", "-c", "cat >/etc/pal-slurm/pal.yaml", stdin=self._settings)
        self.scores({})
        self.wait_pald()

    def _idle(self) -> None:
        def resumed() -> bool:
            nodes = [line.split() for line in self.client("sinfo", "-h", "-N", "-o", "%N %T").splitlines()]
            for node, state in nodes:
                if state.startswith(("drain", "down")):
                    self.run("login", "scontrol", "update", f"nodename={node}", "state=resume")
            return all(state == "idle" for _, state in nodes)

        wait_for(resumed, "all nodes idle", 120)


def compose(project: str, *words: str, env: Mapping[str, str], timeout: float = 300) -> str:
    """docker compose for that project, from the project's root."""
    done = subprocess.run(
        ["docker", "compose", "-p", project, *words], cwd=PROJECT, env=dict(env), capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"docker compose {' '.join(words)}: {done.stderr or done.stdout}"
    return done.stdout
