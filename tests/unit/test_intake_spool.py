"""Taking in documents: idempotent, all or nothing, what can't be used is named, cards keep what is theirs."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from pal_slurm.config import Config
from pal_slurm.errors import BadInput
from pal_slurm.intake.directory import SpoolBusy
from pal_slurm.intake.documents import KernelClasses
from pal_slurm.intake.spool import FileFate, Spool
from pal_slurm.learning.from_nights import rescore
from pal_slurm.learning.run import ingest
from pal_slurm.probe.document import Check, to_json
from pal_slurm.store import GpuRepo, Store
from pal_slurm.store.cards import CardRepo
from pal_slurm.store.nights import NightRepo
from tests.unit.longhorn import spearman
from tests.unit.spools import DAY, NIGHT, NOW, card, document, fleet, here, put, put_night, scores, shelf, take


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir()
    return path


def test_a_night_becomes_scores_in_the_order_of_the_truth(store: Store, spool: Path) -> None:
    truth = fleet(16, slow={("n3", 1): 1.5, ("n9", 2): 1.9})
    put_night(spool, truth)
    done = take(store, spool)
    assert (done.count(FileFate.TAKEN), done.runs, done.rescored.scores) == (16, 16 * 4 * 5, 64)
    found = scores(store)
    places = sorted(truth)
    assert spearman(np.array([found[p] for p in places]), np.array([truth[p] for p in places])) > 0.98
    assert found["n9", 2] == pytest.approx(1.9, rel=0.03)
    assert not [p for p in spool.iterdir() if p.is_file() and not p.name.startswith(".")]


def test_the_same_documents_again_change_nothing(store: Store, spool: Path) -> None:
    truth = fleet(4)
    put_night(spool, truth)
    take(store, spool)
    before = scores(store)
    put_night(spool, truth)
    done = take(store, spool)
    assert done.count(FileFate.KNOWN) == 4
    assert done.rescored.nights == 0
    assert scores(store) == before


def test_scores_recomputed_from_raw_runs_are_the_same(store: Store, spool: Path) -> None:
    truth = fleet(8, slow={("n2", 0): 1.4})
    for night in range(4):
        put_night(spool, truth, NIGHT - (3 - night) * DAY, seed=night)
        take(store, spool)
    before = scores(store)
    assert rescore(store, NOW, anew=True).nights == 4
    assert scores(store) == pytest.approx(before, rel=1e-9)


def test_killed_between_runs_and_scores_the_next_pass_makes_the_scores(store: Store, spool: Path) -> None:
    put_night(spool, fleet(4))
    spools = Spool(spool, store, classes_of(), Path(here(spool).state_dir))
    assert {told.fate for told in spools.take(NOW)} == {FileFate.TAKEN}
    assert scores(store) == {}
    assert len(NightRepo(store).marked()) == 1
    done = take(store, spool)
    assert (done.files, done.rescored.scores) == ([], 16)


def test_a_document_that_was_stored_and_not_moved_counts_once(store: Store, spool: Path) -> None:
    truth = fleet(4)
    put_night(spool, truth)
    take(store, spool)
    before = scores(store)
    for path in (shelf(spool) / "taken").iterdir():
        path.rename(spool / path.name)
    assert take(store, spool).count(FileFate.KNOWN) == 4
    assert scores(store) == before


# What can't be used --------------------------------------------------------------------------------------------------


def aside(spool: Path) -> dict[str, str]:
    folder = shelf(spool) / "set-aside"
    return {p.name.removesuffix(".reason"): p.read_text() for p in folder.glob("*.reason")} if folder.exists() else {}


def test_torn_is_left_while_it_may_grow_and_set_aside_later(store: Store, spool: Path) -> None:
    path = put(spool, document("n1", fleet(1)))
    path.write_text(path.read_text()[:500])
    assert ingest(store, here(spool), spool, path.stat().st_mtime + 1).count(FileFate.LEFT) == 1
    assert ingest(store, here(spool), spool, path.stat().st_mtime + 60).count(FileFate.SET_ASIDE) == 1
    assert "torn" in aside(spool)[path.name]
    assert (shelf(spool) / "set-aside" / path.name).exists()


def test_what_is_no_plain_file_is_set_aside_unread(store: Store, spool: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(to_json(document("n1", fleet(1))))
    (spool / "link.json").symlink_to(secret)
    os.mkfifo(spool / "pipe.json")
    (spool / "folder.json").mkdir()
    done = take(store, spool)
    assert done.count(FileFate.SET_ASIDE) == 3
    assert scores(store) == {}
    assert {told.said for told in done.files} == {"a symbolic link, not a file", "not a plain file"}
    assert take(store, spool).files == []  # they stay where they are, and are told once
    (spool / "pipe.json").unlink()
    os.mkfifo(spool / "pipe.json")
    assert [told.name for told in take(store, spool).files] == ["pipe.json"]


def test_a_gigabyte_is_refused_without_being_read(store: Store, spool: Path) -> None:
    with (spool / "huge.json").open("wb") as file:
        file.truncate(1 << 30)
    assert "1073741824 bytes" in take(store, spool).files[0].said


def test_a_half_written_file_is_not_looked_at(store: Store, spool: Path) -> None:
    (spool / ".bench-n1.json.part").write_text("{")
    assert take(store, spool).files == []


def test_a_kernel_of_which_nobody_knows_the_class_is_named(store: Store, spool: Path) -> None:
    made = document("n1", fleet(1), app="mystery")
    kernel = replace(made.kernels[0], cls=None)
    put(spool, replace(made, kernels=(kernel,)))
    done = take(store, spool)
    assert "palctl apps set mystery=A" in done.files[0].said
    assert done.count(FileFate.SET_ASIDE) == 1


def test_names_that_can_not_be_printed_do_no_harm(store: Store, spool: Path) -> None:
    for name in (b"\xff\xfe.json", b"a\nb.json", b"\x1b[31m.json", ("x" * 250).encode()):
        (spool / os.fsdecode(name)).write_text("{")
    done = ingest(store, here(spool), spool, NOW * 2)
    assert done.count(FileFate.SET_ASIDE) == 4
    assert len(aside(spool)) == 4


def test_two_at_a_time_are_one_too_many(store: Store, spool: Path) -> None:
    put_night(spool, fleet(2))
    first = Spool(spool, store, classes_of(), Path(here(spool).state_dir)).take(NOW)
    next(first)
    with pytest.raises(SpoolBusy):
        take(store, spool)
    list(first)


def test_a_missing_spool_is_a_sentence(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="can't be"):
        take(store, tmp_path / "nowhere")


def classes_of() -> KernelClasses:
    return KernelClasses(("A", "B", "C"), {}, Config().profile.kernels, {})


# A thousand bad documents --------------------------------------------------------------------------------------------


def _run(rng: random.Random, value: dict[str, Any]) -> None:
    run = rng.choice(value["runs"])
    choices: list[tuple[str, list[Any]]] = [
        ("seconds", [float("nan"), float("inf"), -1.0, 0.0, 1e12, "0.2", None, True, [1]]),
        ("unit", ["ms", "us", "steps/s", "", None]),
        ("measured_at", [NOW + 7 * DAY, NOW * 1000, 5.0, -1, "now", 4e9]),
        ("uuids", [["GPU-of-nobody"], [], [run["uuids"][0]] * 2, "GPU-x", [None]]),
    ]
    field, bad = rng.choice(choices)
    run[field] = rng.choice(bad)


def _device(rng: random.Random, value: dict[str, Any]) -> None:
    hostile = [
        "'; DROP TABLE runs; --",
        "\x1b[31mred",
        "<script>alert(1)</script>",
        "n1\nn2",
        "\u202eevil",
        "x" * 5000,
        "",
    ]
    first, second = value["devices"][:2]
    kind = rng.randrange(4)
    if kind == 0:
        second["uuid"] = first["uuid"]
    elif kind == 1:
        second["slot"] = first["slot"]
    elif kind == 2:
        second["power_cap_w"] = rng.choice([400_000.0, -1.0, float("nan")])
    else:
        second[rng.choice(["uuid", "node"])] = rng.choice(hostile)


def _whole(rng: random.Random, value: dict[str, Any]) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        value[rng.choice(["runs", "devices", "kernels"])] = rng.choice([None, 7, {}, "many"])
    elif kind == 1:
        value["version"] = rng.choice([0, 2, "1", None, True])
    elif kind == 2:
        value[rng.choice(["surprise", "__class__", "constructor"])] = 1
    else:
        del value[rng.choice(["runs", "devices", "kind", "begun_at", "format"])]


def spoil(rng: random.Random, good: str) -> bytes:
    """A document with something wrong in it."""
    kind = rng.randrange(10)
    if kind == 0:
        return good[: rng.randrange(1, len(good) - 2)].encode()
    if kind == 1:
        return rng.randbytes(rng.randrange(1, 4000))
    if kind == 2:
        return b"[" * rng.randrange(1000, 200_000)
    if kind == 3:
        return good.encode().replace(b'"runs"', b'"ru\xffns"')
    value: dict[str, Any] = json.loads(good)
    rng.choice([_run, _run, _device, _whole])(rng, value)
    return json.dumps(value).encode()


def test_a_thousand_bad_documents_change_no_score_and_each_is_named(store: Store, spool: Path) -> None:
    truth = fleet(4, slow={("n2", 1): 1.4})
    put_night(spool, truth)
    take(store, spool)
    before, places = scores(store), GpuRepo(store).current()
    rng = random.Random(5)
    for i in range(1000):
        at = NIGHT + rng.randrange(0, 3600)
        made = document(f"n{1 + i % 4}", fleet(4, seed=i, slow={("n1", 0): 9.0}), at, seed=i)
        (spool / f"bad-{i:04}.json").write_bytes(spoil(rng, to_json(made)))
        os.utime(spool / f"bad-{i:04}.json", (NOW - 100, NOW - 100))
    done = take(store, spool)
    survivors = [told.name for told in done.files if told.fate is not FileFate.SET_ASIDE]
    assert survivors == []
    assert len(aside(spool)) == 1000
    assert all(len(reason.strip()) > 10 and reason.strip().isprintable() for reason in aside(spool).values())
    assert scores(store) == before
    assert GpuRepo(store).current() == places


# Cards ---------------------------------------------------------------------------------------------------------------


def test_a_card_that_moved_keeps_its_history_and_no_slot_inherits(store: Store, spool: Path) -> None:
    truth = fleet(8, slow={("n3", 1): 1.6})
    put_night(spool, truth, NIGHT - 2 * DAY)
    put_night(spool, truth, NIGHT - DAY)
    take(store, spool)
    assert scores(store)["n3", 1] == pytest.approx(1.6, rel=0.03)
    moved = {("n7", 0): card("n3", 1), ("n3", 1): "GPU-brand-new"}
    now_true = {**truth, ("n7", 0): 1.6, ("n3", 1): 1.0}
    put(spool, document("n3", now_true, NIGHT, cards=moved))
    put(spool, document("n7", now_true, NIGHT, cards=moved))
    done = take(store, spool)
    found = scores(store)
    assert found["n7", 0] == pytest.approx(1.6, rel=0.03)
    assert found["n3", 1] == pytest.approx(1.0, rel=0.05)
    life = GpuRepo(store).life(card("n3", 1))
    assert [(stay.node, stay.slot, stay.until is None) for stay in life] == [("n3", 1, False), ("n7", 0, True)]
    nights = [(row.night, row.node) for row in CardRepo(store).nights(card("n3", 1))]
    day = int(NIGHT // DAY)
    assert nights == [(day - 2, "n3"), (day - 1, "n3"), (day, "n7")]
    assert GpuRepo(store).life(card("n7", 0))[-1].until is not None
    assert done.count(FileFate.TAKEN) == 2


def test_a_document_that_comes_late_moves_no_card_back(store: Store, spool: Path) -> None:
    truth = fleet(2)
    late = document("n1", truth, NIGHT - DAY)
    put(spool, document("n2", truth, NIGHT, cards={("n2", 0): card("n1", 0)}))
    take(store, spool)
    put(spool, late)
    take(store, spool)
    assert {s.uuid: (s.node, s.slot) for s in GpuRepo(store).current()}[card("n1", 0)] == ("n2", 0)


def test_a_new_driver_starts_anew(store: Store, spool: Path) -> None:
    slow, fixed = fleet(8, slow={("n3", 1): 1.6}), fleet(8)
    for night in range(3):
        put_night(spool, slow, NIGHT - (4 - night) * DAY)
    put_night(spool, fixed, NIGHT, driver="560.10")
    take(store, spool)
    assert scores(store)["n3", 1] < 1.1


def test_a_hot_night_is_an_alert_and_changes_no_score(store: Store, spool: Path) -> None:
    truth = fleet(8, slow={("n3", 1): 1.3})
    for night in range(3):
        put_night(spool, truth, NIGHT - (3 - night) * DAY, seed=night)
    take(store, spool)
    before = scores(store)
    hot = {place: 1.2 * slowness for place, slowness in truth.items()}
    put_night(spool, hot, NIGHT, seed=9)
    done = take(store, spool)
    assert [alert.kind for alert in done.rescored.alerts] == ["shift"]
    assert "20" in done.rescored.alerts[0].said or "19" in done.rescored.alerts[0].said
    assert scores(store) == pytest.approx(before, rel=0.01)
    assert len(NightRepo(store).alerts()) == 1


def test_a_diagnostic_that_failed_is_unhealthy_not_slow(store: Store, spool: Path) -> None:
    made = document("n1", fleet(1))
    put(spool, replace(made, checks=(Check("targeted_power", "fail", made.devices[0].uuid, "39 W"),)))
    take(store, spool)
    assert [(a.kind, "targeted_power" in a.said) for a in NightRepo(store).alerts()] == [("unhealthy", True)]


def test_a_document_that_the_database_refuses_is_set_aside_and_the_others_are_taken(
    sqlite_store: Store, spool: Path
) -> None:
    with sqlite_store.writing() as db:
        db.execute(
            text(
                "CREATE TRIGGER refuses BEFORE INSERT ON runs WHEN NEW.node = 'n2' "
                "BEGIN SELECT RAISE(ABORT, 'no room for n2'); END"
            )
        )
    put_night(spool, fleet(3))
    done = take(sqlite_store, spool)
    assert (done.count(FileFate.TAKEN), done.count(FileFate.SET_ASIDE)) == (2, 1)
    (bad,) = (file for file in done.files if file.fate is FileFate.SET_ASIDE)
    assert "no room for n2" in bad.said and not [path for path in spool.iterdir() if path.name.startswith("bench")]
