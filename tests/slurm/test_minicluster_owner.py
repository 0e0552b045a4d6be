"""A cluster that a program started for itself ends when that program does, however it ends; and so does its pald."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.slurm.minicluster import PROJECT, RELEASES, TOOL, Minicluster, tool, wait_for
from tests.slurm.test_minicluster import HOME, assert_no_trace, mark_of, marked_processes, name  # noqa: F401

WITHIN = 60.0

# What tests and benchmarks do: a cluster and a pald from their own helpers; then they are killed.
PROGRAM = """
import sys, time
from pathlib import Path
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald
cluster = Minicluster.up(sys.argv[1], sys.argv[2], "--nodes", "2")
pald = Pald(cluster, Path(sys.argv[3])).start()
print(pald.process.pid, flush=True)
time.sleep(600)
"""


@contextmanager
def owner(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """A program, in a session of its own as in a terminal that is closed; surely gone after the block."""
    program = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=PROJECT, start_new_session=True)
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_no_trace(cluster_dir: Path, mark: str) -> None:
    """The keeper is the last to go, after the directory: nobody waits for it once the cluster was up."""
    wait_for(lambda: not cluster_dir.exists() and not marked_processes(mark), "all is gone", WITHIN)
    assert_no_trace(cluster_dir, mark)


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_cluster_and_the_pald_beside_it_end_with_their_owner(name: str, release: str) -> None:  # noqa: F811
    with owner("sleep", "600") as program:
        options = ("--nodes", "2", "--dbd", "--pald", "--until-gone", str(program.pid))
        done = tool("up", "--name", name, "--slurm", RELEASES[release], *options)
        assert done.returncode == 0, done.stderr
        cluster = Minicluster(name, release, HOME / name)
        stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM HUP; sleep 600' & sleep 600"
        cluster.wait_state(cluster.submit("--gres=gpu:1", wrap=stubborn, user="nobody"), "RUNNING")
        mark, pald = mark_of(cluster.dir), cluster.pid("pald")
        assert running(pald)
        program.send_signal(signal.SIGKILL)
        wait_for(lambda: not running(pald), "its pald is gone", WITHIN)
    wait_no_trace(HOME / name, mark)


@pytest.mark.slurm("26.05")
def test_an_owner_that_dies_while_the_cluster_starts_takes_it_along(name: str, release: str) -> None:  # noqa: F811
    with owner("sleep", "600") as program:
        argv = [str(TOOL), "up", "--name", name, "--slurm", RELEASES[release], "--nodes", "64"]
        starting = subprocess.Popen(
            [*argv, "--until-gone", str(program.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: (HOME / name / "run" / "keeper").exists(), "the keeper has begun")
        mark = mark_of(HOME / name)
        program.send_signal(signal.SIGKILL)
        _, said = starting.communicate(timeout=WITHIN)
    # A fast machine may have brought it up before the keeper hears of the death: then nobody waits for its end.
    assert (starting.returncode, "interrupted" in said) in ((1, True), (0, False))
    wait_no_trace(HOME / name, mark)


@pytest.mark.slurm("22.05")
def test_a_cluster_for_a_program_that_is_gone_is_not_started(name: str, release: str) -> None:  # noqa: F811
    with owner("true") as program:
        program.wait()  # reaped: no such process any more
        done = tool("up", "--name", name, "--until-gone", str(program.pid))
    assert done.returncode == 1
    assert "there is no such process" in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("22.05")
def test_a_later_process_with_the_owners_number_is_not_taken_for_it(name: str, release: str) -> None:  # noqa: F811
    """The keeper is told the owner's start time, too: here that of another process."""
    argv = [sys.executable, "-c", IMPOSTOR, name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=PROJECT / "scripts", check=False)
    assert done.stdout.strip() == f"process {os.getpid()}, of --until-gone, is gone", done.stderr
    assert not (HOME / name).exists()


IMPOSTOR = """
import os, sys
from minicluster_lib import commands, speeds
from minicluster_lib.errors import MiniclusterError
from minicluster_lib.processes import Process
from minicluster_lib.spec import Spec
real = Process.of
Process.of = classmethod(lambda cls, pid: cls(pid, 1) if pid == os.getppid() else real(pid))
spec = Spec(sys.argv[1], nodes=1)
try:
    commands.up(spec, speeds.equal(spec), os.getppid())
except MiniclusterError as error:
    print(error)
"""


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_the_tests_own_cluster_and_pald_end_when_the_tests_are_killed(
    name: str,  # noqa: F811
    release: str,
    tmp_path: Path,
) -> None:
    with owner(sys.executable, "-c", PROGRAM, name, release, str(tmp_path)) as program:
        assert program.stdout is not None
        pald = int(program.stdout.readline())
        mark = mark_of(HOME / name)
        assert running(pald) and marked_processes(mark)
        program.send_signal(signal.SIGKILL)
        wait_for(lambda: not running(pald), "its pald is gone", WITHIN)
    wait_no_trace(HOME / name, mark)


@pytest.mark.slurm("26.05")
def test_a_demo_that_is_killed_leaves_no_cluster(release: str) -> None:
    def of_demo(pid: int) -> list[dict[str, object]]:
        listed: list[dict[str, object]] = json.loads(tool("list", "--json").stdout)
        return [about for about in listed if str(about["name"]).startswith(f"demo{pid}-")]

    size = ("--nodes", "2", "--jobs", "8", "--only", "packed", "--only", "stock")
    with owner("env", "PYTHONPATH=scripts", sys.executable, "-m", "demo_lib", *size) as demo:
        wait_for(lambda: [a["state"] for a in of_demo(demo.pid)] == ["up", "up"], "two clusters are up", WITHIN)
        clusters = [HOME / str(about["name"]) for about in of_demo(demo.pid)]
        marks = [mark_of(cluster) for cluster in clusters]
        pald = json.loads((HOME / f"demo{demo.pid}-packed" / "run" / "pids.json").read_text())["pald"]
        demo.send_signal(signal.SIGKILL)
        wait_for(lambda: not running(pald), "its pald is gone", WITHIN)
    for cluster, mark in zip(clusters, marks, strict=True):
        wait_no_trace(cluster, mark)
