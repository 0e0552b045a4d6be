"""Jobs that were turned to a part of a GPU, on real Slurms: their steps work, whatever they asked and their users set.

No pald runs here: the edits are those that it makes. What steps see is what the job has.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.doctor.advice import Health
from pal_slurm.doctor.checks import sharing
from pal_slurm.doctor.site import Site
from pal_slurm.slurm.commands.run import Commands
from tests.slurm.minicluster import Minicluster, wait_for

# How a job asks for one GPU, and what else an edit clears as it turns that to a part.
FORMS = {
    "per node": (("--gres=gpu:1",), ()),
    "per node, by the other name": (("--gpus-per-node=1",), ()),
    "of the job": (("--gpus=1",), ("TresPerJob=",)),
    "per task": (("-n1", "--gpus-per-task=1"), ("TresPerTask=cpu=1",)),
}
SCRIPT = """#!/bin/sh -e
env -0 >"$OUT.batch"
srun -n1 env -0 >"$OUT.step"
srun -n1 --overlap sh -c 'srun -n1 --overlap env -0' >"$OUT.inner"
"""
HOSTILE = {
    "PATH": "/nowhere:/usr/bin:/bin",
    "IFS": "01 shard:",
    "ENV": "/dev/full",
    "BASH_ENV": "/dev/full",
    "SLURM_SHARDS_ON_NODE": "7",
    "PAL_SHARDS_OF": "1",
    "SLURM_GRES": "gpu:4",
    "SLURM_GPUS": "4",
    "SLURM_TRES_BIND": "gres/gpu:closest",
    "SLURM_TRES_PER_TASK": "gres/gpu=4",
    "BASH_FUNC_echo%%": "() { exit 3; }",
    "LONG": "x" * 60_000,
}


@pytest.fixture(scope="module")
def parts(release: str) -> Iterator[Minicluster]:
    """A node with four GPUs of two shards each."""
    own = Minicluster.up(f"t{os.getpid()}-parts-{release}", release, "--nodes", "1", "--gpus", "4", "--shards", "2")
    yield own
    own.down()


def submitted(cluster: Minicluster, out: Path, *options: str, script: str = SCRIPT, **environment: str) -> int:
    """It would start in an hour."""
    words = ["env", *(f"{key}={value}" for key, value in environment.items()), f"OUT={out}", "sbatch", "--parsable"]
    more = ["-o", f"{out}.said", "--begin=now+1hour", "--mem=100", "-t", "5"]
    return int(cluster.client(*words, *more, *options, stdin=script))


def edited(cluster: Minicluster, job: int, *clears: str) -> None:
    """As pald pins one that shares: device 2."""
    asks = ("ReqNodeList=n1", "NumNodes=1", *clears, "TresPerNode=gres/shard:g2:1", "StartTime=now")
    cluster.client("scontrol", "update", f"JobId={job}", *asks)


def seen(cluster: Minicluster, out: Path, job: int) -> dict[str, dict[str, str]]:
    """The environments of the batch script, of a step, and of a step within a step."""
    state = cluster.wait_state(job, "COMPLETED", "FAILED")
    said = Path(f"{out}.said").read_text(errors="replace")
    assert (state, said) == ("COMPLETED", "")
    texts = {part: Path(f"{out}.{part}").read_bytes().decode() for part in ("batch", "step", "inner")}
    return {part: dict(word.split("=", 1) for word in text.split("\0") if word) for part, text in texts.items()}


@pytest.mark.every(2)
@pytest.mark.slurm("26.05", "24.11")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hostile", [False, True], ids=["", "hostile"])
def test_steps_of_a_job_that_was_turned_to_a_part_see_its_gpu(
    form: str, hostile: bool, parts: Minicluster, tmp_path: Path
) -> None:
    options, clears = FORMS[form]
    out = tmp_path / "job"
    job = submitted(parts, out, *options, **(HOSTILE if hostile else {}))
    edited(parts, job, *clears)
    for part, env in seen(parts, out, job).items():
        assert env["CUDA_VISIBLE_DEVICES"] == "2", part
        assert (env["SLURM_GRES"], env["PAL_SHARDS_OF"]) == ("shard:1", str(job)), part


@pytest.mark.slurm("26.05", "24.11")
def test_jobs_with_whole_gpus_are_as_they_are_without_the_prolog(parts: Minicluster, tmp_path: Path) -> None:
    found = []
    for prolog in (False, True):
        _prolog(parts, prolog)
        names = set()
        for form, (options, _) in FORMS.items():
            out = tmp_path / f"{form} {prolog}"
            job = submitted(parts, out, *options)
            parts.client("scontrol", "update", f"JobId={job}", "StartTime=now")
            # Numbers of the job, of ports and of processes differ, names don't
            names |= {(form, part, name) for part, env in seen(parts, out, job).items() for name in env}
        found.append(names)
    assert {name for _, _, name in found[0] ^ found[1]} == {"SLURM_SCRIPT_CONTEXT"}  # Slurm's own, with any prolog


def _prolog(cluster: Minicluster, on: bool) -> None:
    conf = cluster.etc / "slurm.conf"
    lines = [line.lstrip("#") if "TaskProlog=" in line else line for line in conf.read_text().splitlines()]
    conf.write_text("".join(f"{'#' if 'TaskProlog=' in line and not on else ''}{line}\n" for line in lines))
    cluster.restart()
    cluster.restart("n1")
    wait_for(lambda: cluster.run("sinfo", "-h", "-n", "n1", "-o", "%T").stdout.split() == ["idle"], "n1 is idle")


@pytest.mark.slurm("26.05", "24.11")
def test_what_a_job_with_a_part_submits_gets_its_own_gpus(parts: Minicluster, tmp_path: Path) -> None:
    """sbatch hands the environment of the first on to the second, whose steps ask for what it has."""
    inner = tmp_path / "inner.sh"
    inner.write_text(SCRIPT)
    out = tmp_path / "second"
    script = f'#!/bin/sh -e\nOUT={out} sbatch --parsable -o {out}.said --mem=100 -t 5 --gres=gpu:2 {inner} >"$OUT.id"\n'
    job = submitted(parts, tmp_path / "first", "--gres=gpu:1", script=script)
    edited(parts, job)
    assert parts.wait_state(job, "COMPLETED", "FAILED") == "COMPLETED"
    second = int((tmp_path / "first.id").read_text())
    for part, env in seen(parts, out, second).items():
        assert len(env["CUDA_VISIBLE_DEVICES"].split(",")) == 2, part
        assert not env.keys() & {"PAL_SHARDS_OF", "SLURM_SHARDS_ON_NODE", "SLURM_GRES"}, part


@pytest.mark.slurm("26.05", "24.11")
def test_where_shards_are_pald_s_an_owner_gets_none_by_editing_and_an_admin_does(
    parts: Minicluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    parts.reset()
    conf = parts.etc / "pal_lua.conf"
    conf.write_text(conf.read_text() + "shards = pald\n")
    held = ("--begin=now+1hour", "--mem=100", "--gres=gpu:1")
    job = parts.submit(*held, user="nobody")
    for asked in ("gres/shard:g1:1", "gres/shard:1"):
        words = ("scontrol", "update", f"JobId={job}", f"TresPerNode={asked}")
        refused = parts.run(*words, user="nobody")
        assert refused.returncode != 0 and "--comment=pal:share" in refused.stdout + refused.stderr
        assert parts.fields(job)["TresPerNode"] == "gres/gpu:1"
        said = parts.run("sbatch", f"--{asked.replace('/', '=', 1)}", "--wrap", "true", user="nobody")
        assert said.returncode != 0 and "--comment=pal:share" in said.stderr
    two = "TresPerNode=gres/shard:g0:1,gres/shard:g1:1"
    assert parts.run("scontrol", "update", f"JobId={job}", two).returncode != 0  # nobody gets these
    edited(parts, job)
    parts.wait_state(job, "RUNNING")
    assert parts.fields(job)["TresPerNode"] == "gres/shard:g2:1"
    parts.client("scancel", str(job))


def advised(cluster: Minicluster, home: Path) -> list[str]:
    """What palctl doctor says of sharing, where jobs share."""
    yaml = home / "pal.yaml"
    yaml.write_text(f"cluster: {{bin_dir: {cluster.bin}}}\nsharing: {{enabled: true}}\n")
    site = Site(pal_yaml=str(yaml), slurm_conf=str(cluster.etc / "slurm.conf"), commands=Commands(cluster.bin, 20.0))
    return [advice.said for advice in sharing.look(site) if advice.health is Health.MEND]


@pytest.mark.slurm("26.05", "24.11")
def test_a_shard_that_slurm_lost_and_a_prolog_that_is_not_there_are_told_and_mended(
    parts: Minicluster, tmp_path: Path
) -> None:
    parts.reset()
    lua = parts.etc / "pal_lua.conf"
    lua.write_text(lua.read_text() + "shards = pald\n")
    assert advised(parts, tmp_path) == []
    lua.write_text(lua.read_text() + "enabled = no\n")  # who refuses such jobs is away
    job = parts.submit("--gres=shard:g0:1,shard:g1:1", "--mem=100", wrap="true")
    parts.wait_state(job, "COMPLETED")
    wait_for(lambda: any("n1: no job is there" in said for said in advised(parts, tmp_path)), "a shard is lost")
    parts.client("scontrol", "reconfigure")
    wait_for(lambda: advised(parts, tmp_path) == [], "the line that was given has mended it")
    prolog = parts.etc / "pal_task_prolog"
    away = prolog.rename(tmp_path / "away")
    try:
        assert ["every task fails" in said for said in advised(parts, tmp_path)] == [True]
        job = parts.submit("--gres=gpu:1", "--mem=100", wrap="true")
        assert parts.wait_state(job, "COMPLETED", "FAILED") == "FAILED"
    finally:
        away.rename(prolog)
