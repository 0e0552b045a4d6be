"""All-reduce timed by two real processes, read strictly, taken in once, and told as what distance costs."""

from __future__ import annotations

import json
import math
import socket
import subprocess
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.intake.spool import FileFate
from pal_slurm.learning.run import ingest
from pal_slurm.probe.document import Reduced, ReduceDocument, to_json
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.reading import read
from pal_slurm.probe.reducing import Ranks, ranks_of
from pal_slurm.store import open_store
from pal_slurm.store.learned import LearnedRepo
from tests.probe.helpers import NOW, command, environment, probe
from tests.unit.spools import here, shelf

MIB = 1 << 20
MADE = ReduceDocument(
    "pal-probe test", NOW - 60, NOW, "7", "nccl", "a100", ("n1", "n1"), (Reduced(64 * MIB, 20, 0.01, 0.02),)
)


def far(seconds: float = 0.03, at: float = NOW) -> ReduceDocument:
    return replace(MADE, nodes=("n1", "n2"), ended_at=at, reduced=(Reduced(64 * MIB, 20, seconds, 0.02),))


def test_two_ranks_time_sums_of_each_size_and_rank_0_writes_them_down(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        master = f"127.0.0.1:{held.getsockname()[1]}"
    words = ["all-reduce", "--ranks", "2", "--master", master, "--size", "1", "--size", "8", "--rounds", "5"]
    other = subprocess.Popen(
        command(*words, "--rank", "1"), env=environment({"SLURMD_NODENAME": "n2"}), stdout=subprocess.PIPE
    )
    try:
        first = probe(*words, "--rank", "0", "-o", f"{tmp_path}/", env={"SLURMD_NODENAME": "n1"})
        said, _ = other.communicate(timeout=60)
    finally:
        other.kill()
        other.wait()
    assert (first.returncode, other.returncode, said) == (0, 0, b""), first.stderr
    [path] = tmp_path.iterdir()
    made = read(path.read_bytes(), NOW + 1e9).reduces
    assert (
        made is not None
        and made.nodes == ("n1", "n2")
        and made.model == ("cpu" if made.backend == "gloo" else made.model)
    )
    assert [one.bytes for one in made.reduced] == [MIB, 8 * MIB] and {one.rounds for one in made.reduced} == {5}
    assert probe("check", str(path)).stdout.endswith("all-reduce: 2 ranks on 2 nodes, 2 sizes\n")


def test_a_rank_that_stays_alone_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    alone = probe("all-reduce", "--rank", "1", "--ranks", "2", "--master", "127.0.0.1:9", "--patience", "1")
    assert alone.returncode == 1 and "rank 1 of 2, meeting at 127.0.0.1:9" in alone.stderr


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "n[03-04]"}, Ranks(1, 2, "n03:20070")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NODELIST": "a-1,b2"}, Ranks(0, 2, "a-1:20070")),
    ],
)
def test_under_srun_ranks_know_each_other(environment: Mapping[str, str], found: Ranks) -> None:
    told = {**environment, "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    assert ranks_of(Namespace(rank=None, ranks=None, master=""), told) == found


@pytest.mark.parametrize(
    ("rank", "ranks", "said"),
    [
        (None, None, "which rank"),
        (2, 2, "rank 2 of 2"),
        (0, 1, "two ranks at least"),
        (0, 2, "where do the ranks meet"),
    ],
)
def test_ranks_that_cannot_be_are_refused(rank: int | None, ranks: int | None, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ranks_of(Namespace(rank=rank, ranks=ranks, master=""), {})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("nodes", ["n1"], "nodes: 1 ranks; two at least"),
        ("nodes", ["n1", "n\u001b2"], "nodes: holds something that is no node's name"),
        ("backend", "mpi", "backend: 'mpi' is none of gloo, nccl"),
        ("model", "a|b", "model: 'a|b' is not a name"),
        ("reduced", [{"bytes": 0, "rounds": 1, "seconds": 1.0, "spread": 0.0}], "reduced[0].bytes: 0 is outside"),
        ("reduced", [{"bytes": 8, "rounds": 1, "seconds": 0.0, "spread": 0.0}], "reduced[0].seconds: 0 is outside"),
        ("reduced", [{"bytes": 8, "rounds": 1, "seconds": 1.0, "spread": 0.0}] * 2, "reduced: 8 bytes are there 2"),
        ("reduced", [{"bytes": 8, "rounds": 1, "seconds": 1.0}], "reduced[0].spread: is missing"),
        ("more", 1, "more: is not a field"),
        ("version", 2, "version: 2 is unknown"),
        ("ended_at", NOW - 99, "ended_at: lies before begun_at"),
    ],
)
def test_what_is_wrong_in_the_document_is_named(field: str, value: object, said: str) -> None:
    record = {**json.loads(to_json(MADE)), field: value}
    found = read(json.dumps(record).encode(), NOW)
    assert found.reduces is None and said in "; ".join(map(str, found.defects))


def test_nights_near_and_far_become_a_factor_with_its_doubt_and_no_file_counts_twice(tmp_path: Path) -> None:
    spool, url = tmp_path / "spool", f"sqlite:///{tmp_path}/pal.sqlite"
    spool.mkdir()
    pal = tmp_path / "pal.yaml"
    pal.write_text(f"state_dir: {tmp_path}\n")
    assert CliRunner().invoke(palctl, ["--config", str(pal), "db", "upgrade"]).exit_code == 0
    store = open_store(url)
    for night, made in enumerate((MADE, far(0.03), far(0.03 * 1.1), far(0.03 / 1.1))):
        (spool / f"{night}.json").write_text(to_json(made))
    assert ingest(store, here(spool), spool, NOW).count(FileFate.TAKEN) == 4
    for night in range(4):
        (shelf(spool) / "taken" / f"{night}.json").rename(spool / f"{night}.json")  # killed before they were moved
    assert ingest(store, here(spool), spool, NOW).count(FileFate.KNOWN) == 4
    base = LearnedRepo(store).features()["all-reduce-64MiB"].base
    assert {shape: seen.jobs for shape, seen in base.items()} == {"a100|2|1": 1, "a100|2|2": 3}
    assert math.exp(base["a100|2|2"].mean) == pytest.approx(0.03)
    assert base["a100|2|2"].var == pytest.approx(base["a100|2|1"].var / 3)
    store.close()
    told = CliRunner().invoke(palctl, ["--config", str(pal), "apps", "--comm", "--json"]).output
    [row] = json.loads(told)
    assert (row["app"], row["apart"], row["apart_jobs"]) == ("all-reduce-64MiB", 3.0, 4)
    assert 0.05 < row["apart_doubt"] < 0.07 and row["comm_source"] == "none" and row["cluster"] == 1.0
