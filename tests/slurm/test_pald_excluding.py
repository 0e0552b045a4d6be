"""`actuator: exclude` on a site whose slurm.conf knows nothing of pal-slurm: no plugin, no lua, nobody waits for us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from pal_slurm.slurm.excluded import own_of
from pal_slurm.slurm.nodeset import expand
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald

SLOW = {"n1", "n2"}
SETTINGS = {"actuator": "exclude"}
Make = Callable[..., Minicluster]
# As users write them, badly or well; each is submitted while all GPUs are held. How many nodes it gets is no matter of
# chance in any of them.
UGLY = (
    ("--gres=gpu:1",),
    ("-N1", "--gpus=2"),
    ("--gpus-per-node=a100:2",),
    ("-N2", "--gpus-per-node=1"),
    ("-N2", "-n2", "--gpus=2"),
    ("-N1", "-n2", "--gpus-per-task=1"),
    ("-N1", "--gpus=3", "--cpus-per-gpu=1"),
    ("--gres=gpu:4",),
    ("-x", "n6", "--gres=gpu:1"),
    ("-x", "n[3-6]", "--gres=gpu:1"),
    ("-x", "n[1-2]", "--gres=gpu:2"),
    ("-w", "n1", "--gres=gpu:1"),
    ("-w", "n[1-2]", "-N2", "--gpus-per-node=1"),
    ("-C", "a100", "--gres=gpu:1"),
    ("-N3", "--gpus-per-node=1"),
    ("-N5", "--gres=gpu:1"),
    ("--exclusive", "--gres=gpu:1"),
    ("--array=1-2", "--gres=gpu:1"),
    ("--comment=pal:off", "--gres=gpu:1"),
    ("--comment=app:x", "--mem=100", "-c2", "--gres=gpu:1"),
    ("--begin=now+2", "--gres=gpu:1"),
    ("--nice=100", "--gres=gpu:2", "--job-name=x ExcNodeList=n3,n3,n3"),
)
KEPT = {"NumNodes", "NumTasks", "CPUs/Task", "TresPerNode", "TresPerJob", "TresPerTask", "Features", "Partition",
        "TimeLimit", "ReqNodeList", "OverSubscribe", "Nice", "MinMemoryNode", "JobState"}  # fmt: skip
TOLD = "env | grep -E '^SLURM_(GPUS_ON_NODE|NNODES|NTASKS|NPROCS|CPUS_|TASKS_|MEM_|JOB_CPUS|TRES)' | sort; sleep 0.2"


@pytest.fixture
def site(make_minicluster: Make) -> Iterator[Minicluster]:
    yield make_minicluster("--nodes", "6", "--gpus", "4", "--gres", "typed", "--no-pal")


def scores(pald: Pald, table: Path) -> None:
    rows = [f"n{n},{slot},a100,A,{1.5 if f'n{n}' in SLOW else 1.0}" for n in range(1, 7) for slot in range(4)]
    table.write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    pald.palctl("scores", "import", str(table))


def held(cluster: Minicluster) -> list[int]:
    """A job on each whole node; by their limits all end within two minutes."""
    jobs = [cluster.submit("--gres=gpu:4", "-t2", "-w", node, wrap="sleep 100") for node in cluster.nodes]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    return jobs


def got(cluster: Minicluster, job: int) -> dict[str, str]:
    fields = cluster.fields(job)
    told = {name: fields[name] for name in KEPT & fields.keys()}
    return told | {
        "own": own_of(fields["ExcNodeList"]).replace("(null)", ""),
        "environment": Path(fields["StdOut"]).read_text(),
    }


def run_all(
    cluster: Minicluster, into: Path, before_they_start: Callable[[], object]
) -> dict[tuple[str, ...], dict[str, str]]:
    blockers = held(cluster)
    jobs = {line: cluster.submit("-t9", "-o", f"{into}-%j", *line, wrap=TOLD) for line in UGLY}
    before_they_start()
    for job in blockers:
        cluster.client("scancel", str(job))
    wait_for(lambda: not cluster.client("squeue", "-h", "-o", "%i").strip(), "all jobs have run", 120)
    return {line: got(cluster, job) for line, job in jobs.items()}


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_ugly_jobs_get_what_they_get_without_pald_and_no_slow_node(site: Minicluster, tmp_path: Path) -> None:
    without = run_all(site, tmp_path / "without", lambda: None)
    with Pald(site, tmp_path, SETTINGS) as pald:
        pald.start()
        scores(pald, tmp_path / "scores.csv")
        pald.wait_cycle()
        made = run_all(site, tmp_path / "with", pald.wait_cycle)
        differ = [(line, name, without[line][name], told[name]) for line, told in made.items() for name in told]
        assert [told for told in differ if told[2] != told[3]] == []
        kept_off = {intent.edit.job for intent in pald.ledger() if intent.edit.kind is EditKind.EXCLUDE}
        given_back = {intent.edit.job for intent in pald.ledger() if intent.edit.kind is EditKind.INCLUDE}
        assert len(kept_off) >= 8 and {intent.edit.kind.value for intent in pald.ledger()} <= {"exclude", "include"}
        for job in kept_off - given_back:
            fields = site.fields(job)
            assert not expand(fields["NodeList"]) & SLOW and fields["ReqNodeList"] == "(null)", fields


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_with_pald_its_database_and_slurmctld_gone_and_back_every_list_is_given_back(
    site: Minicluster, tmp_path: Path
) -> None:
    with Pald(site, tmp_path, SETTINGS) as pald:
        pald.start()
        scores(pald, tmp_path / "scores.csv")
        pald.wait_cycle()
        held(site)
        own, plain = site.submit("-t9", "-x", "n[5-6]", "--gres=gpu:1"), site.submit("-t9", "--gres=gpu:1")
        for job in (own, plain):
            wait_for(lambda job=job: "n1" in site.fields(job)["ExcNodeList"], f"job {job} is kept off")  # type: ignore[misc]
        assert "nothing to do" in pald.palctl("undo", "--all", "--if-dead", "30")
        pald.wait_told("slower nodes excluded: n[1-2]: done", "why", str(own))
        pald.kill()
        for path in tmp_path.glob("pal.sqlite*"):
            path.unlink()
        site.restart()
        site.wait_answer()
        assert site.fields(own)["ExcNodeList"] == "n1,n[1-2],n1,n[5-6]"
        assert "2 of 2 jobs are as they were" in pald.palctl("undo", "--all")
        assert [site.fields(job)["ExcNodeList"] for job in (own, plain)] == ["n[5-6]", "(null)"]
        assert "nothing of ours is in the queue" in pald.palctl("undo", "--all")
