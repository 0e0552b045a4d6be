"""The simulator's lease is the lua's: one table of submissions through both."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.slurm.mark import read_mark
from pal_slurm.slurm.records import JobRecord

LUA = Path(__file__).parents[2] / "spank" / "job_submit.lua"
NOW = 1_800_000_000
NO_VAL = 4294967294
SUBMISSIONS: dict[str, dict[str, str | int]] = {
    "plain": {"per_node": "gres/gpu:2"},
    "in total, on some nodes": {"per_job": "gres/gpu:4", "num_nodes": 1, "max_nodes": 3},
    "on two nodes": {"per_node": "gres/gpu:2", "num_nodes": 2, "max_nodes": 2},
    "per task": {"per_task": "gres/gpu:1"},
    "per socket": {"per_socket": "gres/gpu:1"},
    "with all in it": {"per_node": "gres/gpu:1", "partition": "gpu,cpu", "features": "a100&rack1"},
    "with nodes of its own": {"per_node": "gres/gpu:1", "required_nodes": "n[1-2]"},
    "no GPU": {"per_node": ""},
    "no GPU, said": {"per_node": "gres/gpu:0"},
    "another partition": {"per_node": "gres/gpu:1", "partition": "cpu"},
    "a reservation": {"per_node": "gres/gpu:1", "reservation": "night"},
    "begins late": {"per_node": "gres/gpu:1", "begin": NOW + 3600},
    "begins soon": {"per_node": "gres/gpu:1", "begin": NOW + 5},
    "began long ago": {"per_node": "gres/gpu:1", "begin": NOW - 5},
    "tasks per GPU": {"per_job": "gres/gpu:2", "recounts": 1},
    "words that could be misread": {"per_node": "gres/gpu:1", "features": "a;b=1"},
    "braces": {"per_node": "gres/gpu:1", "features": "{a}"},
    "a blank": {"per_node": "gres/gpu:1", "features": "a b"},
    "too long": {"per_node": "gres/gpu:1", "features": "f" * 600},
    "may be moved": {"per_node": "gres/gpu:1", "comment": "mine pal:move", "requeue": 1},
    "may be moved, and says more": {"per_node": "gres/gpu:1", "comment": "pal:move=USR1@60", "required_nodes": "n1"},
    "may share": {"per_node": "gres/gpu:1", "comment": "app:net pal:share"},
    "words like that": {"per_node": "gres/gpu:1", "comment": "pal:shared xpal:share"},
    "words like it": {"per_node": "gres/gpu:1", "comment": "pal:moves xpal:move pal:mov\te", "requeue": 0},
    "a comment of an admin": {"per_node": "gres/gpu:1", "admin_comment": "see ticket 7"},
}
FIELDS = {
    "per_node": "tres_per_node", "per_job": "tres_per_job", "per_task": "tres_per_task",
    "per_socket": "tres_per_socket", "num_nodes": "min_nodes", "max_nodes": "max_nodes", "required_nodes": "req_nodes",
    "begin": "begin_time", "recounts": "ntasks_per_tres",
}  # fmt: skip


@pytest.fixture(scope="module")
def by_lua(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """What the lua makes of each: AdminComment, begin time."""
    home = tmp_path_factory.mktemp("lua")
    shutil.copy(LUA, home)
    (home / "pal_lua.conf").write_text("partitions = gpu\nlease = 20\nslots = yes\nshards = pald\n")
    lines = [
        f"os.time = function() return {NOW} end",
        "slurm = { SUCCESS = 0, log_info = function() end, log_user = function() end }",
        f'dofile("{home}/job_submit.lua")',
        "local parts = { gpu = { flag_default = 1 }, cpu = { flag_default = 0 } }",
    ]
    for fields in SUBMISSIONS.values():
        base = {"begin_time": 0, "immediate": 0, "min_nodes": NO_VAL, "max_nodes": NO_VAL, "user_id": 1000}
        base |= {"het_job_offset": NO_VAL, "requeue": 65534}
        given = base | {FIELDS.get(name, name): value for name, value in fields.items()}
        words = ", ".join(f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in given.items())
        lines.append(f'do local j = {{ {words}, environment = {{}}, script = "#!/bin/sh\\n" }}')
        lines.append('slurm_job_submit(j, parts, 1000) print(j.admin_comment or "", "|", j.begin_time) end')
    (home / "drive.lua").write_text("\n".join(lines))
    lua = next(filter(None, map(shutil.which, ("lua5.4", "lua5.3", "lua5.1"))))
    out = subprocess.run([lua, home / "drive.lua"], capture_output=True, text=True, timeout=30, check=True).stdout
    rows = [line.rsplit("|", 1) for line in out.splitlines()]
    return {name: (row[0].strip(), int(row[1])) for name, row in zip(SUBMISSIONS, rows, strict=True)}


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_the_simulator_leases_as_the_lua_does(name: str, by_lua: dict[str, tuple[str, int]]) -> None:
    fields = dict(SUBMISSIONS[name])
    begin, recounts = int(fields.pop("begin", 0)), bool(fields.pop("recounts", 0))
    said = fields.pop("requeue", None)
    record = JobRecord(1, NOW, "PENDING", "u", **fields)  # type: ignore[arg-type]
    said_requeue = None if said is None else bool(said)
    job = SimJob(record, lambda _: 1.0, begin=float(begin), recounts=recounts, said_requeue=said_requeue)
    Leasing(lambda now: True, partitions=frozenset({"gpu"}))(job, NOW)
    assert (record.admin_comment, int(job.begin)) == by_lua[name]


def test_the_table_holds_jobs_of_both_kinds(by_lua: dict[str, tuple[str, int]]) -> None:
    leased = [read_mark(comment) is not None for comment, _ in by_lua.values()]
    assert 10 <= sum(leased) <= len(leased) - 5
