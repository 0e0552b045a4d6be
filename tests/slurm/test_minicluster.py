"""The mini-cluster itself: it runs jobs like a real one, and leaves nothing, whatever happens to it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.minicluster import RELEASES, TOOL, Minicluster, tool, wait_for

pytestmark = pytest.mark.every(2)

HOME = Path(os.environ.get("PAL_MINICLUSTER_HOME", "/tmp/pal-minicluster"))


def marked_processes(mark: str) -> list[str]:
    """Every process on this machine that sees the cluster's mark among its mounts."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f" {mark} " in (entry / "mountinfo").read_text():
                    found.append((entry / "cmdline").read_text())
            except OSError:
                continue
    return found


def mark_of(cluster_dir: Path) -> str:
    return str(json.loads((cluster_dir / "facts.json").read_text())["mark"])


def assert_no_trace(cluster_dir: Path, mark: str) -> None:
    assert marked_processes(mark) == []
    assert not cluster_dir.exists()
    assert str(cluster_dir) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def name(release: str) -> Iterator[str]:
    """A name for a cluster that the test handles by itself; nothing of it outlives the test."""
    name = f"t{os.getpid()}-own-{release}"
    yield name
    if (HOME / name).exists():
        tool("down", "--name", name)


def up(name: str, release: str, *options: str) -> subprocess.CompletedProcess[str]:
    return tool("up", "--name", name, "--slurm", RELEASES[release], "--nodes", "2", *options)


# --- it is a Slurm


def test_a_job_gets_its_gpus_and_runs(minicluster: Minicluster) -> None:
    job = minicluster.submit("--gres=gpu:2", wrap="sleep 30")
    minicluster.wait_state(job, "RUNNING")
    assert list(minicluster.gpu_indices(job).values()) == ["0,1"]


def test_srun_reaches_several_nodes(minicluster: Minicluster) -> None:
    out = minicluster.client("srun", "-N3", "--gres=gpu:1", "sh", "-c", "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES")
    names = sorted(line.split(":")[0] for line in out.split())
    assert len(set(names)) == 3
    assert {line.split(":")[1] for line in out.split()} == {"0"}


def test_an_ordinary_user_can_submit_and_run(minicluster: Minicluster) -> None:
    assert minicluster.client("srun", "-N2", "id", "-un", user="nobody").split() == ["nobody", "nobody"]
    job = minicluster.submit("--gres=gpu:1", user="nobody")
    minicluster.wait_state(job, "RUNNING")
    assert minicluster.fields(job)["UserId"].startswith("nobody(")


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_the_wrappers_work_for_a_user_who_may_not_enter_namespaces(minicluster: Minicluster) -> None:
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    argv = [*as_nobody, str(minicluster.bin / "srun"), "-N2", "id", "-un"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, cwd="/tmp", check=False)
    assert done.stdout.split() == ["nobody", "nobody"], done.stderr


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_daemons_listen_on_loopback_only(minicluster: Minicluster) -> None:
    port = json.loads((minicluster.dir / "facts.json").read_text())["base_port"]
    wanted = {f"{p:04X}" for p in range(port, port + 4 + len(minicluster.nodes))}
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {w[1].split(":")[0] for w in listening if w[3] == "0A" and w[1].split(":")[1] in wanted}
    assert addresses == {"0100007F"}
    wide = [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    assert not [w for w in wide if w[3] == "0A" and w[1].split(":")[1] in wanted]


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_nodes_have_racks_models_and_slots(minicluster: Minicluster) -> None:
    node = minicluster.client("scontrol", "show", "node", "n1", "-o").split()
    fields = dict(word.split("=", 1) for word in node if "=" in word)
    assert fields["Gres"] == "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1"
    assert fields["AvailableFeatures"] == "a100,rack1"
    assert "rack1" in minicluster.client("scontrol", "show", "topology")


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_slurmctld_can_be_frozen_killed_and_started_again(minicluster: Minicluster) -> None:
    job = minicluster.submit("--gres=gpu:1")
    minicluster.wait_state(job, "RUNNING")
    with minicluster.frozen(), pytest.raises(subprocess.TimeoutExpired):
        minicluster.run("squeue", timeout=1)
    with minicluster.stopped():
        assert minicluster.run("scontrol", "ping").returncode != 0
    assert minicluster.state(job) == "RUNNING"
    minicluster.daemon("kill")
    assert minicluster.run("scontrol", "ping").returncode != 0
    minicluster.daemon("start")
    # What a killed slurmctld had not saved yet is lost, as it would be on a real one; this job it had saved.
    assert minicluster.state(job) == "RUNNING"


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_reset_repairs_what_a_test_broke(minicluster: Minicluster) -> None:
    minicluster.submit("--gres=gpu:1", user="nobody")
    minicluster.drain("n2")
    minicluster.daemon("kill", "n3")
    minicluster.client("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    (minicluster.etc / "pal_lua.conf").write_text("nonsense")
    minicluster.reset()
    assert minicluster.client("squeue", "-h").strip() == ""
    assert {minicluster.node_state(node) for node in ("n2", "n3")} == {"idle"}
    assert "nonsense" not in (minicluster.etc / "pal_lua.conf").read_text()


def test_the_accounting_database_keeps_the_jobs(make_minicluster: Callable[..., Minicluster]) -> None:
    cluster = make_minicluster("--nodes", "1", "--dbd")
    cluster.client("srun", "--gres=gpu:2", "true")
    wait_for(
        lambda: "gres/gpu=2" in cluster.client("sacct", "-X", "-n", "-o", "alloctres%80"), "sacct shows the job's GPUs"
    )


def test_the_other_kinds_of_gres_work(make_minicluster: Callable[..., Minicluster]) -> None:
    typed = make_minicluster("--nodes", "2", "--gres", "typed", "--models", "a100=1,v100=1", "--no-pal")
    assert typed.client("srun", "--gres=gpu:v100:2", "sh", "-c", "echo $SLURMD_NODENAME").split() == ["n2"]
    plain = make_minicluster("--nodes", "1", "--gres", "none")
    assert plain.client("srun", "--gres=gpu:3", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").strip() == "0,1,2"


# --- it leaves nothing


def test_one_slurmd_stands_for_all_hollow_nodes(make_minicluster: Callable[..., Minicluster]) -> None:
    cluster = make_minicluster("--hollow", "40")
    assert cluster.client("sinfo", "-h", "-o", "%D %t").split() == [str(40 + len(cluster.nodes)), "idle"]
    cluster.client("salloc", "-Q", "--no-shell", "-N40", "-w", "h[1-40]", "--gpus-per-node=3", "-t", "10")
    cluster.client("salloc", "-Q", "--no-shell", "-w", "h23", "--gpus-per-node=1", "-t", "10")
    used = {node: cluster.client("scontrol", "show", "node", "-d", node).count(":1(IDX:") for node in ("h23", "h40")}
    assert used == {"h23": 4, "h40": 3}
    assert "*" not in cluster.client("sinfo", "-h", "-o", "%t"), "each node responds"


@pytest.mark.slow
def test_hollow_nodes_go_on_responding(make_minicluster: Callable[..., Minicluster]) -> None:
    cluster = make_minicluster("--hollow", "200")
    until = time.monotonic() + 115  # slurmctld asks all nodes each 100 s where SlurmdTimeout is 0
    while time.monotonic() < until:
        assert "*" not in cluster.client("sinfo", "-h", "-o", "%t")
        time.sleep(5)


def test_down_leaves_no_process_no_file_no_mount(name: str, release: str) -> None:
    cluster = Minicluster.up(name, release, "--nodes", "2")
    stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM HUP; sleep 600' & sleep 600"
    cluster.wait_state(cluster.submit("--gres=gpu:1", wrap=stubborn, user="nobody"), "RUNNING")
    mark = mark_of(cluster.dir)
    wait_for(lambda: len([c for c in marked_processes(mark) if c.startswith("sleep")]) == 2, "the job's processes run")
    cluster.down()
    assert_no_trace(cluster.dir, mark)


def test_clusters_live_side_by_side(make_minicluster: Callable[..., Minicluster]) -> None:
    first, second = make_minicluster("--nodes", "1"), make_minicluster("--nodes", "1")
    job = first.submit("--gres=gpu:1")
    first.wait_state(job, "RUNNING")
    assert second.client("squeue", "-h").strip() == ""
    second.reset()
    assert first.state(job) == "RUNNING"


def test_up_twice_is_refused_and_the_first_goes_on(name: str, release: str) -> None:
    assert up(name, release).returncode == 0
    again = up(name, release)
    assert again.returncode == 1
    assert "is up already" in again.stderr
    assert tool("status", "--name", name).returncode == 0


@pytest.mark.slurm("22.05", "26.05")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_up_killed_half_way_leaves_nothing(name: str, release: str, number: signal.Signals) -> None:
    argv = [str(TOOL), "up", "--name", name, "--slurm", RELEASES[release], "--nodes", "64"]
    starting = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: (HOME / name / "run" / "keeper").exists(), "the keeper has begun")
    mark = mark_of(HOME / name)
    starting.send_signal(number)
    _, said = starting.communicate(timeout=30)
    assert starting.returncode != 0
    if number == signal.SIGTERM:
        assert "interrupted" in said
    wait_for(lambda: not (HOME / name).exists() and not marked_processes(mark), "all is gone")


def says_down(cluster: Minicluster) -> bool:
    try:
        return cluster.run("squeue").returncode == 69
    except subprocess.TimeoutExpired:  # it was let in while slurmctld ended, and asks that for as long as Slurm allows
        return False


@pytest.mark.slurm("22.05", "26.05")
def test_a_cluster_whose_keeper_was_killed_is_found_and_replaced(name: str, release: str) -> None:
    cluster = Minicluster.up(name, release, "--nodes", "2")
    mark = mark_of(cluster.dir)
    keeper = int((cluster.dir / "run" / "keeper").read_text().split()[0])
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: says_down(cluster), "the wrapper says that it is down")
    assert "is not up" in cluster.run("squeue").stderr
    again = up(name, release)
    assert again.returncode == 0, again.stderr
    assert "removing what an earlier" in again.stderr
    assert marked_processes(mark) == []


@pytest.mark.slurm("22.05")
def test_a_taken_port_is_named_and_nothing_is_left(name: str, release: str) -> None:
    with socket.socket() as blocker:
        blocker.bind(("127.0.0.1", 0))
        blocker.listen()
        port = blocker.getsockname()[1]
        done = up(name, release, "--port", str(port))
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("22.05")
def test_a_port_that_is_taken_while_it_starts_is_named_and_nothing_is_left(name: str, release: str) -> None:
    """Slurm itself finds the port taken: the free block is looked for before, so the test sets another one."""
    with socket.socket() as blocker:
        blocker.bind(("127.0.0.1", 0))
        blocker.listen()
        port = blocker.getsockname()[1]
        done = up(name, release, "--set", f"SlurmctldPort={port}")
    assert done.returncode == 1
    assert "slurmctld ended with code 1" in done.stderr
    assert "Address already in use" in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("22.05")
@pytest.mark.parametrize(
    ("capability", "sentence"),
    [("mknod", "cannot make the device file"), ("sys_admin", "needs root with CAP_SYS_ADMIN")],
)
def test_missing_rights_are_explained_and_nothing_is_left(
    name: str, release: str, capability: str, sentence: str
) -> None:
    argv = ["setpriv", f"--bounding-set=-{capability}", "--", str(TOOL), "up", "--name", name, "--nodes", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("22.05")
def test_an_ordinary_user_is_told_that_it_needs_root(name: str, release: str) -> None:
    with tempfile.TemporaryDirectory() as place:  # the project itself may lie where others cannot read
        Path(place).chmod(0o755)
        shutil.copy(TOOL, place)
        shutil.copytree(TOOL.parent / "minicluster_lib", Path(place) / "minicluster_lib")
        argv = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", f"{place}/minicluster"]
        argv += ["up", "--name", name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "needs root" in done.stderr


@pytest.mark.slurm("22.05")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nodes", "0"], "--nodes 0: must be 1 to"),
        (["--gpus", "99"], "--gpus 99: must be 0 to"),
        (["--models", "a100=3"], "--models names 3 nodes, but the cluster has 16"),
        (["--models", "a100"], "'a100' is not of the form key=value"),
        (["--speeds", "/nowhere"], "--speeds /nowhere: No such file"),
        (["--set", "nonsense"], "is not of the form KEY=VALUE"),
        (["--set", "NoSuchKey=1"], "NoSuchKey"),
    ],
)
def test_wrong_options_are_named(name: str, release: str, options: list[str], sentence: str) -> None:
    done = tool("up", "--name", name, *options)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("22.05")
@pytest.mark.parametrize("bad", ["../x", "a b", "", "-x", "x" * 33])
def test_a_name_cannot_leave_the_home(release: str, bad: str) -> None:
    done = tool("up", f"--name={bad}", "--nodes", "1")
    assert done.returncode in (1, 0)
    if done.returncode == 0:
        tool("down", "--slurm", "native")
        assert bad == ""
    else:
        assert "--name" in done.stderr


@pytest.mark.slurm("22.05")
def test_killed_and_restarted_up_and_down_in_a_row_leave_nothing(name: str, release: str) -> None:
    """Kill `up` at many different moments: at each, a later `down` or `up` finds clean ground."""
    for delay in (0.0, 0.02, 0.05, 0.08, 0.12, 0.2):
        starting = subprocess.Popen([TOOL, "up", "--name", name, "--nodes", "4"], stdout=subprocess.DEVNULL)
        time.sleep(delay)
        starting.kill()
        starting.wait()
        wait_for(lambda: tool("down", "--name", name).returncode == 0 or not (HOME / name).exists(), "down")
        assert not (HOME / name).exists()
