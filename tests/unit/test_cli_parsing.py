"""What Slurm's commands printed, release by release (tests/golden/cli, recorded from real slurmctlds), as the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Job, JobState, Shape
from pal_slurm.slurm.capabilities import capabilities_of, parse_release
from pal_slurm.slurm.commands.cluster import read_config, read_machine, read_passes, to_setup
from pal_slurm.slurm.commands.columns import WIDTHS, Layout, Rows, rows
from pal_slurm.slurm.commands.details import devices_of, sole_lines
from pal_slurm.slurm.commands.queue import Unread, megabytes, minutes, to_record
from pal_slurm.slurm.nodes import Machine, SiteWords, to_cluster, to_reservation
from pal_slurm.slurm.records import to_job

GOLDEN = Path(__file__).parent.parent / "golden" / "cli"
RELEASES = sorted(path.name for path in GOLDEN.iterdir())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def text(release: str, name: str) -> bytes:
    return (GOLDEN / release / name).read_bytes()


def layout_of(release: str) -> Layout:
    pairs = (column.split(":") for column in text(release, "columns").decode().strip().split(","))
    return Layout(tuple((name, int(width)) for name, width in pairs))


def queue(release: str) -> dict[int, Job]:
    return {job.id: job for job in (to_job(to_record(row)) for row in rows(text(release, "queue"), layout_of(release)))}


def machine(release: str) -> Machine:
    names = ("show-node", "show-partition", "show-reservation", "show-topology")
    return read_machine([text(release, name) for name in names])


def test_a_queue_is_read_record_by_record(release: str) -> None:
    jobs = queue(release)
    running, plain, spread, two, task, array, last = (jobs[i] for i in range(1, 8))
    assert (running.state, running.nodes, running.time_limit_s) == (JobState.RUNNING, ("n1", "n2"), 3600)
    assert running.start is not None and running.end == running.start + 3600
    assert all(job.pending for i, job in jobs.items() if i != 1)
    assert plain.shape == Shape(gpus_per_node=2, cpus_per_node=2, cpus=2, mem_per_cpu_mb=100)
    assert plain.hint.app == "resnet"
    assert spread.shape and (spread.shape.min_nodes, spread.shape.max_nodes, spread.shape.gpus) == (1, 3, 4)
    assert spread.shape.mem_per_cpu_mb == 300 and spread.shape.cpus == 4
    assert spread.excluded_nodes == ("n3" if release != "22.05" else "")  # 22.05: from the second call
    assert two.shape and (two.shape.min_nodes, two.shape.gpus_per_node, two.shape.mem_on_each(2)) == (2, 2, 500)
    assert two.time_limit_s == (26 * 60 + 3 + 1) * 60  # seconds round up to a minute
    assert task.shape and not task.shape.by_slot and task.features == "a100&rack1"
    assert (array.array_id, array.array_tasks, array.array_task) == (6, (1, 2, 3, 7), None)
    assert last.exclusive and last.hint.dropped and not plain.exclusive


def test_nodes_become_a_cluster(release: str) -> None:
    found = machine(release)
    reservations = [to_reservation(record) for record in found.reservations]
    cluster = to_cluster(
        found.nodes, found.partitions, reservations, SiteWords(models=("a100",), levels=found.topology.levels)
    )
    assert cluster.node_names == ("n1", "n2", "n3")
    assert [list(map(int, row)) for row in cluster.gpu_free] == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]
    assert list(cluster.node_ok) == [True, True, False]
    assert list(cluster.rack) == [0, 0, 1]
    assert cluster.slots and cluster.models == ("a100",)
    assert (cluster.cpus_free < cluster.cpus).tolist() == [True, True, False]
    assert (cluster.mem_free_mb < cluster.mem_mb).tolist() == [True, True, False]
    assert cluster.partitions["gpu"].all()
    (night,) = reservations
    assert night.name == "night" and night.maintenance and night.nodes == frozenset({"n3"})
    assert night.end - night.start == 3600


def test_settings_and_passes_are_read(release: str) -> None:
    settings = read_config(text(release, "show-config"))
    setup = to_setup(settings)
    assert settings["SLURM_VERSION"].startswith(release)
    assert setup.disable_job_shrink and setup.plugins == "lua" and setup.cluster_name
    passes = read_passes(text(release, "sdiag"))
    assert passes.main + passes.backfill > 0 and passes.started > 1_700_000_000 and passes.rpc_time_us > 0
    assert passes.started <= passes.told < passes.started + 86_400


@pytest.mark.parametrize(
    ("told", "hold"),
    [
        ("none", False),
        ("", False),
        ("nojobs,nosteps", False),
        ("associations", True),
        ("associations,limits,qos", True),
    ],
)
def test_accounts_are_users_own_words_where_slurm_enforces_no_associations(told: str, hold: bool) -> None:
    assert to_setup({"AccountingStorageEnforce": told}).accounts_hold is hold
    assert not to_setup({}).accounts_hold


@pytest.mark.parametrize(
    ("told", "private"),
    [("none", ()), ("", ()), ("jobs,nodes", ("jobs", "nodes")), ("Users,JOBS,usage", ("jobs", "usage", "users"))],
)
def test_what_is_private_is_told_and_all_is_where_nobody_says(told: str, private: tuple[str, ...]) -> None:
    assert to_setup({"PrivateData": told}).private == private
    assert to_setup({}).private == ("jobs", "nodes", "users")


def test_devices_of_a_running_job_are_read_node_by_node(release: str) -> None:
    (row, *_) = (row for row in rows(text(release, "queue"), layout_of(release)) if row.get("JobId") == "1")
    record = to_record(row)
    line = sole_lines(text(release, "show-job"), frozenset({1}))[1]
    record.gres_detail = devices_of(line, record)
    assert to_job(record).gpus == ((0, 1), (0, 1))


@pytest.mark.parametrize(("told", "user"), [("ann", "ann"), ("54321", "54321"), ("nobody", "")])
def test_a_uid_without_a_name_is_no_user(release: str, told: str, user: str) -> None:
    """squeue calls them all nobody: their jobs would be each other's, and of whoever has that account."""
    (row, *_) = rows(text(release, "queue"), layout_of(release))
    assert to_record(replace(row, texts=row.texts | {"UserName": told})).user == user


def test_a_line_that_two_claim_is_nobodys() -> None:
    honest = b"JobId=7 JobName=a Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:g0:1(IDX:0) "
    assert set(sole_lines(honest + b"\n", frozenset({7, 8}))) == {7}
    assert sole_lines(honest + b"\nJobId=7 forged\n", frozenset({7})) == {}


def test_a_node_named_twice_or_missing_makes_devices_unknown(release: str) -> None:
    (row, *_) = rows(text(release, "queue"), layout_of(release))
    record = to_record(row)
    record.nodes = "n[1-2]"
    group = b" Nodes=%s CPU_IDs=0 Mem=1 GRES=gpu:g0:1(IDX:0)"
    assert devices_of(b"JobId=1 " + group % b"n[1-2]" + group % b"n1", record) == []
    assert devices_of(b"JobId=1 " + group % b"n1", record) == []
    assert len(devices_of(b"JobId=1 " + group % b"n2" + group % b"n1", record)) == 2


@pytest.mark.parametrize("spoilt", [b"x", b"\n", b" " * 40])
def test_an_answer_that_is_not_all_whole_records_is_not_used_at_all(release: str, spoilt: bytes) -> None:
    with pytest.raises(SlurmUnavailable, match="nothing was used"):
        rows(text(release, "queue") + spoilt, layout_of(release))


@pytest.mark.parametrize("at_once", [1, 7, 4096, 70_000])
def test_an_answer_that_comes_in_pieces_is_the_same(release: str, at_once: int) -> None:
    whole, found = text(release, "queue"), Rows(layout_of(release))
    for first in range(0, len(whole), at_once):
        found.feed(whole[first : first + at_once])
    of_pieces, at_a_time = found.done(), rows(whole, layout_of(release))
    assert [(row.texts, row.cut, row.tasks) for row in of_pieces] == [(r.texts, r.cut, r.tasks) for r in at_a_time]
    assert [to_record(row) for row in of_pieces] == [to_record(row) for row in at_a_time]


def test_a_record_that_stands_askew_in_a_later_piece_is_named(release: str) -> None:
    whole, of = text(release, "queue"), layout_of(release)
    found = Rows(of)
    found.feed(whole + whole[: of.length // 2])
    found.feed(whole[: of.length // 2] + b"x" * (of.length % 2))
    with pytest.raises(SlurmUnavailable, match=f"record {len(whole) // of.length} stands askew"):
        found.done()


def test_records_that_stand_askew_are_not_used_at_all(release: str) -> None:
    whole = text(release, "queue")
    with pytest.raises(SlurmUnavailable, match="askew"):
        rows(whole[1:] + b"\n", layout_of(release))


def test_a_record_with_a_cut_field_is_named_and_the_others_are_read(release: str) -> None:
    of = layout_of(release)
    start, end = next((start, end) for name, start, end in of.places if name == "Partition")
    record = bytearray(text(release, "queue")[: of.length])
    record[start:end] = b"p" * (end - start)
    (row,) = rows(bytes(record), of)
    with pytest.raises(Unread, match="Partition is longer"):
        to_record(row)


def test_every_column_is_wide_enough_for_its_greatest_number() -> None:
    assert all(WIDTHS[name] > 10 for name in ("JobId", "ArrayJobId", "PriorityLong", "SubmitTime", "EligibleTime"))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("10:00", 10), ("0:30", 1), ("1:00:00", 60), ("1-00:00:00", 1440), ("2-03:04:05", 3065),
        ("UNLIMITED", None), ("INVALID", None), ("", None), ("Partition_Limit", None), ("x-1:00:00", None),
    ],
)  # fmt: skip
def test_time_limits(said: str, meant: int | None) -> None:
    assert minutes(said) == meant


@pytest.mark.parametrize(
    ("said", "meant"), [("500M", 500), ("62.50G", 64000), ("1T", 1048576), ("300", 300), ("100Mc", 100), ("", None)]
)
def test_amounts_of_memory(said: str, meant: int | None) -> None:
    assert megabytes(said) == meant


@pytest.mark.parametrize(
    ("release", "repin", "cross", "separator"),
    [
        ("22.05.8", False, True, "gres:gpu"),
        ("23.02.5", False, True, "gres:gpu"),
        ("23.02.6", True, False, "gres:gpu"),
        ("24.11.5", True, False, "gres/gpu"),
        ("25.11.2", True, False, "gres/gpu"),
        ("27.05.0", True, False, "gres/gpu"),
    ],
)
def test_the_table_of_capabilities(release: str, repin: bool, cross: bool, separator: str) -> None:
    able = capabilities_of(release)
    assert (able.repin, able.restore_untyped, able.cross_field) == (repin, repin, cross)
    assert able.tres_separator == separator and able.exact_slots


def test_a_release_too_old_or_unreadable_is_refused() -> None:
    assert parse_release("slurm-wlm 26.05.0-0rc1") == (26, 5, 0)
    for text in ("21.08.8", "no number"):
        with pytest.raises(SlurmUnavailable):
            capabilities_of(text)
