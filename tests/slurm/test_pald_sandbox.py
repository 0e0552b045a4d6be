"""The sandbox of etc/systemd/pald.service lets pald work beside a real Slurm; systemd itself is imitated."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome, Renew
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm
from tests.slurm import sandbox
from tests.slurm.backends import SITE, WORKER_PYTHON
from tests.slurm.minicluster import PROJECT, Minicluster
from tests.slurm.pald import Pald, lua_settings, mark_of
from tests.slurm.test_pald_rights import AS_USER, USER, home  # noqa: F401

UNIT = PROJECT / "etc" / "systemd" / "pald.service"


def confined(where: Path) -> list[str]:
    """A command that runs what follows under the unit's seccomp filters."""
    (where / "syscalls").write_text("\n".join(sorted(meant_by(sandbox.settings(UNIT)["SystemCallFilter"]))))
    shutil.copy(UNIT, where / "unit")
    shutil.copy(sandbox.__file__, where / "sandbox.py")
    return ["/usr/bin/python3", *(str(where / name) for name in ("sandbox.py", "unit", "syscalls"))]


def meant_by(word: str) -> set[str]:
    """The system calls of a set, by systemd's own account."""
    if not word.startswith("@"):
        return {word}
    done = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter", word], capture_output=True, check=True)
    names = [line.strip() for line in done.stdout.decode().splitlines()[1:]]
    return set().union(*(meant_by(name) for name in names if name and not name.startswith("#")))


@pytest.mark.slurm("22.05")
def test_pald_places_jobs_within_its_sandbox(make_minicluster: Callable[..., Minicluster], home: Path) -> None:  # noqa: F811
    """With this machine's own Slurm: the mini-cluster's wrappers need the namespaces that the unit forbids."""
    cluster = make_minicluster("--nodes", "2", "--dbd")
    files = {name: str(home / name) for name in ("alive", "wake")}
    lua_settings(cluster, alive_file=files["alive"], wake_file=files["wake"])
    cluster.client("sacctmgr", "-i", "add", "user", USER, "account=pal", "adminlevel=operator")
    changes = {"cycle.alive_file": files["alive"], "cycle.wake_file": files["wake"], "cluster.bin_dir": "/usr/bin"}
    with Pald(cluster, home, changes) as pald:
        script = sandbox.mounts(home, cluster.dir, PROJECT, Path(sys.prefix).resolve(), Path(sys.base_prefix))
        as_user = [*AS_USER[:-1], "--bounding-set=-all", "--", "prlimit", "--nproc=64", "--"]
        pald.world = ["unshare", "--mount", "sh", "-euc", script, "sh", *as_user, *confined(home)]
        pald.start(env={"SLURM_CONF": str(cluster.etc / "slurm.conf")})
        job = cluster.submit("--gres=gpu:2")
        assert mark_of(cluster, job)
        cluster.wait_state(job, "RUNNING", within=60)
        assert pald.intents(job, EditKind.PIN)[-1].outcome is Outcome.DONE
        assert pald.process is not None
        status = Path(f"/proc/{pald.process.pid}/status").read_text()
        assert "Seccomp:\t2" in status and "CapEff:\t0000000000000000" in status


@pytest.mark.slurm("26.05")
def test_pyslurms_worker_works_within_the_same_system_calls(minicluster: Minicluster, tmp_path: Path) -> None:
    command = [str(minicluster.bin / "in-cluster"), *confined(tmp_path), WORKER_PYTHON]
    job = minicluster.submit("--gres=gpu:1", "--begin=now+1hour")
    slurm = PyslurmSlurm(command, site=SITE, deadline_s=15.0)
    try:
        assert [waiting.id for waiting in slurm.snapshot().pending] == [job]
        later = Renew(job, until=int(time.time()) + 600)
        assert [result.outcome for result in slurm.apply([later])] == [Outcome.DONE]
    finally:
        slurm.close()
