"""The pyslurm worker on a real slurmctld: killed, hung, misconfigured, of another version; each time one sentence.

What the backend promises when all is well is in test_contract*.py; here is what it does when something is not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Outcome, Renew
from pal_slurm.slurm.nodes import SiteWords
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm
from tests.slurm.backends import SITE, WORKER_PYTHON
from tests.slurm.minicluster import PROJECT, Minicluster, wait_for

pytestmark = pytest.mark.slurm("26.05")
LATER = "--begin=now+1hour"
GIVE_UP_S = 60.0  # a wait that should be over long before

MakeBackend = Callable[..., PyslurmSlurm]


@pytest.fixture
def backend(minicluster: Minicluster) -> Iterator[MakeBackend]:
    """`backend(deadline_s=2)`: a backend on the test's cluster."""
    made: list[PyslurmSlurm] = []

    def make(deadline_s: float = 15.0, conf: str | None = None) -> PyslurmSlurm:
        python = [str(minicluster.bin / "in-cluster"), WORKER_PYTHON]
        made.append(PyslurmSlurm(python, conf=conf, site=SITE, deadline_s=deadline_s))
        return made[-1]

    yield make
    for slurm in made:
        slurm.close()


def test_a_worker_killed_in_the_middle_of_a_call_costs_that_call_only(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    slurm = backend(deadline_s=GIVE_UP_S)
    job = minicluster.submit(LATER, "--gres=gpu:2")
    assert [waiting.id for waiting in slurm.snapshot().pending] == [job]
    pid = slurm.worker.pid
    assert pid is not None
    said: list[str] = []

    def read() -> None:
        with pytest.raises(SlurmUnavailable) as caught:
            slurm.snapshot()
        said.append(str(caught.value))

    with minicluster.frozen():
        reader = threading.Thread(target=read)
        reader.start()
        wait_for(lambda: _waits_for_slurmctld(pid), "the worker waits in its RPC")
        os.kill(pid, signal.SIGKILL)
        reader.join(GIVE_UP_S)
        assert said == ["the pyslurm worker was ended by SIGKILL during snapshot"]
    assert [waiting.id for waiting in slurm.snapshot().pending] == [job]


def _waits_for_slurmctld(pid: int) -> bool:
    """Asleep in the kernel, with a TCP connection of its own open."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    links = (str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir())
    return state == "S" and any(link.startswith("socket:") for link in links)


def test_a_hung_slurmctld_is_given_up_at_the_deadline(minicluster: Minicluster, backend: MakeBackend) -> None:
    slurm = backend(deadline_s=2.5)
    slurm.snapshot()
    with minicluster.frozen():
        for call in (slurm.snapshot, slurm.pulse, slurm.passes):
            with pytest.raises(SlurmUnavailable, match="in time and was stopped; slurmctld may be stuck"):
                call()
    minicluster.wait_answer()
    assert slurm.snapshot().cluster.n_gpus == 32


def test_an_edit_without_an_answer_is_unknown_and_the_next_ones_are_not_sent(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    slurm = backend(deadline_s=2.5)
    jobs = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(3)]
    slurm.capabilities()
    until = int(time.time()) + 7200
    edits = [Renew(job, until=until) for job in jobs]
    with minicluster.frozen():
        results = slurm.apply(edits)
    assert [(result.edit.job, result.outcome) for result in results] == [(job, Outcome.UNKNOWN) for job in jobs]
    assert all("in time" in result.said for result in results)
    minicluster.wait_answer()
    assert [result.outcome for result in slurm.apply(edits)] == [Outcome.DONE] * 3


def test_a_stopped_slurmctld_is_called_unreachable_and_found_again(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    slurm = backend(deadline_s=GIVE_UP_S)
    slurm.snapshot()
    with minicluster.stopped(), pytest.raises(SlurmUnavailable, match=r"slurmctld did not answer|in time"):
        slurm.snapshot()
    assert slurm.snapshot().cluster.n_nodes == 8


def test_a_restarted_slurmctld_is_not_noticed(minicluster: Minicluster, backend: MakeBackend) -> None:
    slurm = backend()
    job = minicluster.submit(LATER, "--gres=gpu:1")
    slurm.snapshot()
    minicluster.restart()
    assert [waiting.id for waiting in slurm.snapshot().pending] == [job]
    assert slurm.worker.starts == 1


def test_an_unknown_key_in_slurm_conf_is_quoted_and_its_removal_is_enough(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    slurm = backend()
    conf = minicluster.etc / "slurm.conf"
    good = conf.read_text()
    conf.write_text(f"{good}\nNoSuchKeyAtAll=1\n")
    try:
        with pytest.raises(SlurmUnavailable, match=r"could not be started: exited with status 1.*NoSuchKeyAtAll"):
            slurm.snapshot()
    finally:
        conf.write_text(good)
    assert slurm.snapshot().cluster.n_nodes == 8


def test_a_missing_slurm_conf_is_named_at_once(backend: MakeBackend, tmp_path: Path) -> None:
    missing = str(tmp_path / "slurm.conf")
    with pytest.raises(SlurmUnavailable, match=f"{missing} does not exist"):
        backend(conf=missing).snapshot()


def test_an_interpreter_without_pyslurm_is_told_what_to_do(minicluster: Minicluster) -> None:
    slurm = PyslurmSlurm([str(minicluster.bin / "in-cluster"), "python3"])
    with pytest.raises(SlurmUnavailable, match=r"can't be imported: .*pyslurm.*scripts/build-pyslurm"):
        slurm.capabilities()
    slurm.close()


def test_nothing_stays_behind_when_the_backend_is_closed(backend: MakeBackend) -> None:
    slurm = backend()
    slurm.snapshot()
    pid = slurm.worker.pid
    assert pid is not None
    slurm.close()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the worker is gone")


def test_a_broken_line_in_a_comment_costs_that_job_its_hint_only(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    slurm = backend()
    good = minicluster.submit(LATER, "--gres=gpu:1", "--comment=app:resnet")
    hostile = [
        "app:resnet\nJobId=999 UserId=root(0)",
        "app:resnet \x1b[2J",
        "app:$(id)",
        "app:`reboot`",
    ]
    bad = [minicluster.submit(LATER, "--gres=gpu:1", f"--comment={text}") for text in hostile]
    bad.append(_submit_bytes(minicluster, b"app:resnet \xff\xfe"))
    snapshot = slurm.snapshot()
    jobs = {job.id: job for job in snapshot.pending}
    assert sorted(jobs) == sorted([good, *bad])
    assert jobs[good].hint.app == "resnet"
    assert all(jobs[job].hint.dropped and jobs[job].hint.app is None for job in bad)
    assert all(jobs[job].shape == jobs[good].shape for job in bad)
    assert snapshot.dropped_hints == len(bad)
    assert snapshot.unread == ()


def _submit_bytes(cluster: Minicluster, comment: bytes) -> int:
    """A job whose comment is no UTF-8."""
    argv = [
        *(b"sbatch", b"--parsable", b"-o", b"/dev/null", LATER.encode(), b"--gres=gpu:1"),
        b"--comment=" + comment,
        *(b"--wrap", b"true"),
    ]
    command = [os.fsencode(cluster.bin / "in-cluster"), *argv]
    return int(subprocess.run(command, capture_output=True, timeout=30, check=True, cwd="/tmp").stdout)


def test_a_long_list_of_array_tasks_is_read_whole(minicluster: Minicluster, backend: MakeBackend) -> None:
    tasks = [task for task in range(400) if task % 7 in (0, 2, 3)]
    job = minicluster.submit(LATER, "--gres=gpu:1", f"--array={','.join(map(str, tasks))}%5")
    slurm = backend()
    assert slurm.jobs([job])[job].array_tasks == tuple(tasks)
    assert slurm.snapshot().pending[0].array_tasks == tuple(tasks)


def test_racks_come_from_the_switches_where_no_feature_names_them(make_minicluster: Callable[..., Minicluster]) -> None:
    cluster = make_minicluster("--nodes", "5", "--rack-size", "2")
    python = [str(cluster.bin / "in-cluster"), WORKER_PYTHON]
    slurm = PyslurmSlurm(python, site=SiteWords(rack_prefix="no-such-feature"))
    assert slurm.snapshot().cluster.rack.tolist() == [0, 0, 1, 1, 2]
    slurm.close()


def test_many_edits_are_written_in_batches_and_all_judged(minicluster: Minicluster, backend: MakeBackend) -> None:
    slurm = backend()
    jobs = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(12)]
    until = int(time.time()) + 7200
    edits = [Renew(jobs[i % 12], until=until + i) for i in range(230)]
    edits[100] = Renew(4_000_000, until=until)
    results = slurm.apply(edits)
    assert [result.edit for result in results] == edits
    assert results[100].outcome is Outcome.GONE
    last = {job: max(edit.until or 0 for edit in edits if edit.job == job) for job in jobs}
    assert {job: slurm.jobs([job])[job].eligible for job in jobs} == last


def test_a_slurmctld_of_the_release_before_is_spoken_to_in_its_own_protocol(
    minicluster: Minicluster, backend: MakeBackend
) -> None:
    """libslurm 26.05 against slurmctld 24.11: read, edit, read again."""
    name = f"t{os.getpid()}-older"
    # With another release libslurm takes the socket of munge from here, as `squeue -M` does, or the usual place.
    socket = minicluster.dir.parent / name / "run" / "munge" / "socket"
    options = ("--nodes", "2", "--gpus", "2", "--set", f"AccountingStoragePass={socket}")
    older = Minicluster.up(name, "24.11", *options)
    try:
        job = older.submit(LATER, "--gres=gpu:1")
        slurm = backend(conf=str(older.etc / "slurm.conf"))
        assert slurm.capabilities().release.startswith("24.11")
        assert [waiting.id for waiting in slurm.snapshot().pending] == [job]
        assert slurm.setup().disable_job_shrink
        (result,) = slurm.apply([Renew(job, until=int(time.time()) + 7200)])
        assert result.outcome is Outcome.DONE
    finally:
        older.down()


@pytest.mark.slurm("22.05", "24.11")
def test_a_slurm_without_a_pyslurm_is_told_so_by_the_builder(release: str, minicluster: Minicluster) -> None:
    root = json.loads((minicluster.dir / "facts.json").read_text())["root"]
    place = [] if release == "22.05" else ["--root", root]
    command = [PROJECT / "scripts" / "build-pyslurm", *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "no pyslurm for this Slurm" in done.stderr and "the cli backend serves it" in done.stderr
