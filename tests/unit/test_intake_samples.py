"""Jobs' files, as the watcher writes them: to samples, to classes, to scores; through pald's ear as well."""

from __future__ import annotations

import random
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pal_slurm.config import Config
from pal_slurm.config.profile import ProfileSection
from pal_slurm.daemon.beside.learning import Learner
from pal_slurm.intake.samples import STRETCH_S, samples_of
from pal_slurm.intake.spool import FileFate
from pal_slurm.learning.run import ingest, recompute
from pal_slurm.model import App
from pal_slurm.probe.document import Device, JobPart, StepTimes, Telemetry, Usage
from pal_slurm.probe.jobfile import JobFile
from pal_slurm.report.inventory import cluster_of
from pal_slurm.store import AppRepo, GpuRepo, JobOutcome, OutcomeRepo, ScoreRepo, Store
from pal_slurm.store.nights import NightRepo
from pal_slurm.store.samples import SampleRepo
from pal_slurm.store.scores import PlacedScore
from tests.unit.spools import NIGHT, card, fleet, here, put_night

START = NIGHT + 12_000 - (NIGHT + 12_000) % STRETCH_S


def write(
    spool: Path, job: str, node: str, slots: list[int], at: float, step: float, minutes: int = 30,
    app: str | None = "net", use: tuple[float, float] = (0.8, 0.3), part: int = 0, seed: int = 1,
    user: int | None = None,
) -> Path:  # fmt: skip
    rng = random.Random(f"{job} {node} {at} {seed}")
    devices = tuple(Device(card(node, slot), node, slot, "NVIDIA A100", "test") for slot in slots)
    file = JobFile(spool, job, node, part, "test", app, devices, at, user)
    for minute in range(minutes):
        begun = at + 60 * minute
        count = max(1, round(60 / step))
        seconds = [step * rng.lognormvariate(0, 0.01) for _ in range(count)]
        telemetry = Telemetry(6, util_compute=use[0], util_memory=use[1])
        file.write(
            [Usage(device.uuid, begun, begun + 59, telemetry) for device in devices],
            [StepTimes(rank, begun, begun + 59, count, sum(seconds), min(seconds), max(seconds)) for rank in range(2)],
        )
    path = file.close(at + 60 * minutes, last=True)
    assert path is not None
    return path


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def profiled(store: Store, spool: Path) -> Store:
    """A fleet with scores from a night."""
    put_night(spool, fleet(4, slow={("n1", 0): 1.3}))
    ingest(store, here(spool), spool, NIGHT + 10_000)
    return store


def placed(store: Store) -> dict[tuple[str, int], PlacedScore]:
    return {(s.node, s.slot): s for s in ScoreRepo(store).placed()}


def test_half_an_hour_of_a_job_is_three_stretches(store: Store, spool: Path) -> None:
    write(spool, "7", "n1", [0, 1], START, 0.25)
    done = ingest(store, here(spool), spool, START + 3600)
    assert (done.count(FileFate.TAKEN), done.samples) == (1, 3)
    samples = SampleRepo(store).of_job("", "7")
    assert [s.gpus for s in samples] == [(card("n1", 0), card("n1", 1))] * 3
    assert [s.step_seconds for s in samples] == pytest.approx([0.25] * 3, rel=0.01)
    assert samples[0].steps == 2400
    assert (samples[0].compute, samples[0].memory) == pytest.approx((0.8, 0.3))


def test_the_same_part_again_counts_once(store: Store, spool: Path) -> None:
    path = write(spool, "7", "n1", [0], START, 0.25)
    data = path.read_bytes()
    ingest(store, here(spool), spool, START + 3600)
    path.write_bytes(data)
    ingest(store, here(spool), spool, START + 3700)
    assert len(SampleRepo(store).of_job("", "7")) == 3


def test_a_checkpoint_is_not_a_slow_gpu() -> None:
    def part(slowest: float) -> JobPart:
        device = Device("GPU-1", "n1", 0, "a100", "test")
        steps = (StepTimes(0, START, START + 59, 100, 99 * 0.2 + slowest, 0.2, slowest),)
        return JobPart("7", "n1", 0, "test", "net", (device,), (), steps, (), START, START + 60, True)

    usual, with_checkpoint = samples_of(part(0.2), "d", "c"), samples_of(part(30.0), "d", "c")
    assert usual[0].step_seconds == pytest.approx(0.2)
    assert with_checkpoint[0].step_seconds == pytest.approx(0.2)


def test_what_a_user_tagged_is_known_where_the_node_did_not_see_it(store: Store, spool: Path) -> None:
    outcome = JobOutcome(7, 1, 2, "A", ("n1",), ((0,),), app="resnet50")
    OutcomeRepo(store, "c").record([outcome])
    write(spool, "7", "n1", [0], START, 0.25, app=None)
    ingest(store, here(spool), spool, START + 3600, "c")
    assert {s.app for s in SampleRepo(store).of_job("c", "7")} == {"resnet50"}


def test_jobs_make_classes_and_then_scores(profiled: Store, spool: Path) -> None:
    uses = {"vgg": (0.9, 0.2), "net": (0.8, 0.3), "bert": (0.5, 0.5), "gpt": (0.55, 0.45), "rank": (0.2, 0.8)}
    for i, (app, use) in enumerate(uses.items()):
        write(spool, str(100 + i), "n2", [0], START + i * 3600, 0.3, app=app, use=use)
    done = ingest(profiled, here(spool), spool, START + 7 * 3600)
    assert done.featured.classes == 5
    classes = {name: entry.app.cls for name, entry in AppRepo(profiled).all().items()}
    assert classes == {"vgg": "A", "net": "A", "bert": "B", "gpt": "B", "rank": "C"}
    assert done.learned.samples == 15


def test_a_gpu_that_becomes_slow_by_day_is_found_through_the_spool(profiled: Store, spool: Path) -> None:
    AppRepo(profiled).set([App("net", "A")], "admin", START)
    at, rng = START, np.random.default_rng(3)
    for job in range(12):
        write(spool, str(job), f"n{1 + job % 4}", [1 + int(rng.integers(3))], at, 0.2, seed=job, user=job % 2)
        at += 1800
    ingest(profiled, here(spool), spool, at + 120)
    write(spool, "50", "n3", [2], at, 0.2, user=0)
    write(spool, "50", "n3", [2], at + 1800, 0.3, part=1, user=0)
    done = ingest(profiled, here(spool), spool, at + 3600 + 120)
    assert [alert.kind for alert in done.alerts] == ["asked"]
    found = placed(profiled)["n3", 2]
    assert found.score == pytest.approx(1.0, rel=0.1)
    assert found.asked == pytest.approx(1.5, rel=0.08)
    assert NightRepo(profiled).nodes_asked() == {"n3"}
    at += 3600
    kinds = []
    for job in (51, 52):
        write(spool, str(job), "n3", [2], at, 0.3, user=1)
        at += 1800
        kinds += [alert.kind for alert in ingest(profiled, here(spool), spool, at + 120).alerts]
    found = placed(profiled)["n3", 2]
    assert found.score == pytest.approx(1.5, rel=0.08)
    assert found.profiled == pytest.approx(1.0, rel=0.1)
    assert NightRepo(profiled).nodes_asked() == set()
    before = {(s.node, s.slot): s.score for s in ScoreRepo(profiled).placed()}
    rescored, learned = recompute(profiled, Config(), at + 240)
    assert rescored.scores == 16
    assert learned.samples > 0
    after = {(s.node, s.slot): s.score for s in ScoreRepo(profiled).placed()}
    assert after == pytest.approx(before, rel=0.08)


def test_pald_listens_beside_its_cycle(profiled: Store, spool: Path) -> None:
    config = msgspec.structs.replace(here(spool), profile=ProfileSection(spool=str(spool)))
    ear = Learner(profiled, "c")
    cluster = cluster_of(GpuRepo(profiled).current())
    put_night(spool, fleet(4, slow={("n2", 2): 1.7}), NIGHT + 86_400)
    assert ear.begin_when_due(config, cluster, NIGHT + 90_000)
    ear.beside.wait()
    assert not ear.begin_when_due(config, cluster, NIGHT + 90_010)
    put_night(spool, fleet(4, slow={("n2", 2): 1.7}), NIGHT + 2 * 86_400)
    assert ear.begin_when_due(config, cluster, NIGHT + 2 * 86_400 + 4000)
    ear.beside.wait()
    assert {(s.node, s.slot): s.score for s in ScoreRepo(profiled).placed()}["n2", 2] == pytest.approx(1.7, rel=0.05)


def test_a_spool_that_is_gone_costs_pald_a_line_in_its_log(
    profiled: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = msgspec.structs.replace(here(tmp_path / "gone"), profile=ProfileSection(spool=str(tmp_path / "gone")))
    ear = Learner(profiled, "c")
    ear.begin_when_due(config, cluster_of(GpuRepo(profiled).current()), NIGHT)
    ear.beside.wait()
    assert "can't be read: No such file" in caplog.text
    assert re.match(r"nothing is learned from the spool since 20..-.*/gone can't be read: No such file", ear.note)
    (tmp_path / "gone").mkdir()
    ear.begin_when_due(config, cluster_of(GpuRepo(profiled).current()), NIGHT + 600)
    ear.beside.wait()
    assert ear.note == ""
