"""Queries about one card mean the same in every database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pal_slurm.store import GpuRepo, JobOutcome, OutcomeRepo, Sighting, Store
from pal_slurm.store.cards import CardRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from tests.unit.spools import DAY, NIGHT, NOW, card, document, fleet, put, put_night, take


def test_identity_places_nights_and_scores(store: Store, tmp_path: Path) -> None:
    truth = fleet(2, slow={("n2", 1): 1.6})
    put_night(tmp_path / "spool", truth, NIGHT - DAY)
    put_night(tmp_path / "spool", truth)
    put(tmp_path / "spool", document("n2", truth, app="gemm"), "gemm.json")
    take(store, tmp_path / "spool")
    repo = CardRepo(store)
    assert repo.uuids() == sorted(card(f"n{n}", slot) for n in (1, 2) for slot in range(4))
    identity = repo.identity(card("n2", 1))
    assert identity is not None
    assert (identity.uuid, identity.model) == (card("n2", 1), "NVIDIA A100")
    assert repo.identity("GPU-%") is None
    assert repo.places() == [(f"n{n}", slot) for n in (1, 2) for slot in range(4)]
    assert [stay.uuid for stay in repo.in_slot("n2", 1)] == [card("n2", 1)]
    nights = repo.nights(identity.uuid)
    tonight = int(NIGHT // DAY)
    assert [(n.app, n.night, n.runs, n.node, n.setup) for n in nights] == [
        ("gemm", tonight, 5, "n2", "550.54|400"),
        ("resnet", tonight - 1, 5, "n2", "550.54|400"),
        ("resnet", tonight, 5, "n2", "550.54|400"),
    ]
    (score,) = repo.scores(identity)
    assert (score.cls, score.source, score.nights) == ("A", "probe", 2)


def test_a_serial_number_is_kept_from_whoever_told_it_and_goes_with_its_card(store: Store, tmp_path: Path) -> None:
    truth, spool = fleet(2), tmp_path / "spool"
    inventory = replace(document("n2", truth, NIGHT - DAY), kind="inventory", kernels=(), runs=())
    devices = tuple(replace(device, serial=f"16500{device.slot}") for device in inventory.devices)
    put(spool, replace(inventory, devices=devices))
    take(store, spool, NOW - DAY)
    put(spool, document("n1", truth, cards={("n1", 3): card("n2", 1)}))  # a tool that knows no serial numbers
    take(store, spool)
    repo = CardRepo(store)
    found = {uuid: identity.serial for uuid in repo.uuids() if (identity := repo.identity(uuid))}
    assert found == {card("n1", slot): None for slot in range(3)} | {
        card("n2", slot): f"16500{slot}" for slot in range(4)
    }
    assert [stay.node for stay in GpuRepo(store).life(card("n2", 1))] == ["n2", "n1"]


def test_jobs_by_outcome_and_by_sample(store: Store) -> None:
    GpuRepo(store).see([Sighting("GPU-1", "n_1", 0), Sighting("GPU-2", "nx1", 0)], NOW - DAY)
    stays, start = GpuRepo(store).life("GPU-1"), int(NOW) - 3_600
    OutcomeRepo(store, "c").record(
        [
            JobOutcome(12, start, start, "A", ("n_1",), ((0, 1),), task=3, app="x", step_time=0.5, array_id=7),
            JobOutcome(8, start, start, "A", ("nx1",), ((0,),)),  # `_` is no wildcard
            JobOutcome(9, start, start, "A", ("n_1",), ((1,),)),
        ]
    )
    SampleRepo(store).add(
        [
            JobSample("a", "c", "7_3", "x", "n_1", ("GPU-1",), start, start + 600, 10, 0.6),
            JobSample("b", "c", "5", None, "n_1", ("GPU-1", "GPU-3"), start - 60, start, 0, None),
            JobSample("c", "c", "6", None, "n_1", ("GPU-3",), start, start + 600, 10, 0.6),
        ]
    )
    found = CardRepo(store).jobs(stays, NOW - DAY)
    assert [(j.job, j.app, j.gpus, j.predicted, j.measured) for j in found] == [
        ("7_3", "x", 2, 0.5, 0.6), ("5", None, None, None, None),
    ]  # fmt: skip
    assert CardRepo(store).jobs(stays, NOW) == []
