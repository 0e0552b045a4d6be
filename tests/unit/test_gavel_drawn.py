"""Sequences of Gavel's generator go on as it draws them; others from their first job."""

from dataclasses import replace
from pathlib import Path

import pytest

from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.traces.gavel_drawn import going_on
from pal_slurm.sim.workload import Workload

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "gavel"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")


def read(name: str) -> Workload:
    options = Options(limit_factor=2.0, throughputs=DATA / "simulation_throughputs.json")
    return read_trace(DATA / "traces" / f"{name}.tsv", "gavel", options)


@pytest.mark.parametrize("name", ["continuous_single_rate5.6_seed0", "continuous_multi_rate2.6_seed0"])
def test_the_first_jobs_of_a_drawn_sequence_tell_all_that_follow(name: str) -> None:
    load = read(name)
    known = replace(load, works=load.works[:2500], tracked=range(2500))
    beyond = going_on(known).beyond
    assert beyond is not None
    for made, told in zip((*beyond(1), *beyond(2)), load.works[2500:], strict=False):
        assert (made.id, made.gpus, made.app.name) == (told.id, told.gpus, told.app.name)
        assert made.steps == pytest.approx(told.steps, rel=1e-6) and made.submit == pytest.approx(told.submit, abs=1.0)
        assert made.limit_s == pytest.approx(told.limit_s, rel=1e-6)
    assert beyond(1) == beyond(1)


def test_a_sequence_in_which_one_job_is_another_goes_on_from_its_first_job() -> None:
    load = read("continuous_single_rate4.0_seed0")
    works = list(load.works[:400])
    works[200] = replace(works[200], steps=works[200].steps * 2)
    beyond = going_on(replace(load, works=tuple(works), tracked=range(300))).beyond
    assert beyond is not None
    first, second = beyond(1), beyond(2)
    assert [work.steps for work in first] == [work.steps for work in works] == [work.steps for work in second]
    assert works[-1].submit < first[0].submit and first[-1].submit < second[0].submit
    assert len({work.id for work in (*works, *first, *second)}) == 1200


def test_what_is_done_to_a_trace_is_done_to_what_follows_it() -> None:
    load = going_on(read("continuous_single_rate4.0_seed0").counting(range(100)))
    some = load.movable(0.25, 3)
    assert some.beyond is not None
    share = sum(work.requeue for work in some.beyond(1)) / len(load.works)
    assert 0.2 < share < 0.3 and some.beyond(1) == some.beyond(1)
