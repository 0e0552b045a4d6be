"""A cluster as tests of tags and leases see it. In: a Minicluster. Out: submissions, and what became of their words."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import dataclass
from functools import partial

from tests.slurm.minicluster import FINAL, Minicluster, wait_for

LONG = 500  # a lease that outlives the test that looks at it


@dataclass
class Tagged:
    """One cluster, with the words of these tests."""

    cluster: Minicluster

    def run(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.cluster.run(*command, stdin=stdin)

    def said(self, *command: str, stdin: str | None = None) -> str:
        return self.cluster.client(*command, stdin=stdin)

    def submit(self, *options: str, script: str = "true") -> int:
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        return int(self.said("sbatch", "--parsable", "--output=/dev/null", *options, stdin=text).split(";")[0])

    def field(self, job: int, name: str) -> str:
        """One field of `scontrol show job`; "" when it isn't shown or null."""
        found = re.search(rf"(?:^|\s){name}=(\S*)", self.said("scontrol", "show", "job", str(job)))
        return "" if found is None or found[1] == "(null)" else found[1]

    def comment(self, job: int) -> str:
        found = re.search(r"^ +Comment=(.*?) *$", self.said("scontrol", "show", "job", str(job)), re.MULTILINE)
        return found[1] if found else ""

    def record(self, job: int) -> dict[str, object]:
        """The job in `squeue --json`, where no user's text can pass for another field. Bytes need not be UTF-8."""
        raw = subprocess.run(
            [self.cluster.bin / "squeue", "--json"], capture_output=True, timeout=30, check=True
        ).stdout
        jobs: list[dict[str, object]] = json.loads(raw.decode(errors="replace"), strict=False)["jobs"]
        return next(record for record in jobs if record["job_id"] == job)

    def mark(self, job: int) -> dict[str, str]:
        found = re.fullmatch(r"pal1\{(.*)\}", self.field(job, "AdminComment"))
        return dict(part.split("=", 1) for part in found[1].split(";")) if found else {}

    def settings(self, **changes: str) -> None:
        values = {"partitions": "gpu", "lease": str(LONG), "slots": "yes", "models": "a100,v100"} | changes
        (self.cluster.etc / "pal_lua.conf").write_text("".join(f"{key} = {value}\n" for key, value in values.items()))

    def finish(self, *jobs: int) -> None:
        """Wait until the jobs have ended well. A heterogeneous job has a line for each component."""

        def ended_well(job: int) -> bool:
            states = set(self.said("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T").split())
            assert not states & (FINAL - {"COMPLETED"}), f"job {job}: {states}"
            return states == {"COMPLETED"}

        for job in jobs:
            wait_for(partial(ended_well, job), f"job {job} ended well", 60)

    def output(self, *options: str, script: str) -> str:
        """What a batch job prints; it must end well."""
        path = self.cluster.dir / "run" / f"out-{time.monotonic_ns()}"
        self.finish(self.submit(*options, f"--output={path}", script=script))
        return path.read_text()

    def log(self) -> str:
        return (self.cluster.dir / "log" / "slurmctld.log").read_text(errors="replace")
