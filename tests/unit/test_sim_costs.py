"""Costs of distance out of data; workloads at a given load."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.errors import BadInput
from pal_slurm.sim.costs import CostMix, parse_costs
from pal_slurm.sim.loads import at_load
from pal_slurm.sim.synthetic import parse_recipe, synthetic_workload
from pal_slurm.sim.traces import Options

ARTIST = """model,placement,compute_ms,exposed_comm_ms,slowdown
net,8=1mach(4x2),1.0,0.1,1.1
net,"8=8mach,1rack",1.0,8.0,9.0
net,16=2mach,1.0,0.5,1.5
net,16=2racks(8+8),1.0,2.0,3.0
half,16=2mach,1.0,0.5,1.5
"""
GAVEL = """gpu,job_type,gpus,steps_per_s_consolidated,steps_per_s_unconsolidated,slowdown
v100,LM (batch size 5),2,8,2,4.0
v100,LM (batch size 10),2,4,2,2.0
v100,LM (batch size 5),4,6,2,3.0
v100,ResNet-50 (batch size 64),2,8,10,0.8
k80,LM (batch size 5),2,2,1,2.0
"""
FITS = """cluster,model,n,a0,b0/sample,al,bl,an,bn,gamma,medianErr,p90Err
aws,bert,9,0.2,0.1,0.5,0.25,4.0,0.5,1.0,0.1,0.1
"""


def costs(tmp_path: Path, text: str, names: str) -> dict[str, tuple[float, ...]]:
    path = tmp_path / "costs.csv"
    path.write_text(text)
    return {name: tuple(round(cost, 6) for cost in comm) for name, comm in parse_costs(f"{path}:{names}").costs}


def test_each_kind_of_table_gives_a_cost_per_tier(tmp_path: Path) -> None:
    assert costs(tmp_path, "name,gpu,node,rack,cluster\nx,1,1,1.2,1.5\ny,1,2,2,2\n", "x") == {"x": (1, 1, 1.2, 1.5)}
    assert costs(tmp_path, ARTIST, "*") == {"net": (1, 1.1, 1.5, 3)}
    assert costs(tmp_path, GAVEL, "v100/*") == {"v100/LM": (1, 1, 3, 3), "v100/ResNet-50": (1, 1, 1, 1)}
    # alone 0.2 + 8 * 0.1 = 1 s; on a node 1 + 0.5 + 2 * 0.25, over nodes 1 + 4 + 6 * 0.5, beyond a rack 1 + 2 * 7
    assert costs(tmp_path, FITS, "aws/bert@8") == {"aws/bert@8": (1, 2, 8, 15)}
    assert parse_costs("1/1/1.5/2").costs[0][1] == (1, 1, 1.5, 2) and parse_costs("flat").costs[0][1] == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("name,gpu,node,rack,cluster\nx,1,1,0.9,1", "x", "line 2, rack: 0.9 is not from 1"),
        ("name,gpu,node,rack,cluster\nx,1,nan,1,1", "x", "line 2, node: nan is not from 1"),
        ("name,gpu,node,rack,cluster\nx,1,1,2,1.5", "x", "line 2, cluster: 1.5 is less than 2"),
        ("name,gpu,node,rack,cluster\nx,1,1,inf,inf", "x", "line 2, rack: inf is not from"),
        ("name,gpu,node,rack,cluster\nx,1,1", "x", "line 2, rack: '' is not a number"),
        ("name,gpu,node,rack,cluster\nx,1,1,1,1", "z", "nothing is named 'z'; there are x"),
        ("a,b\n1,2", "x", "line 1: no table of costs"),
        (FITS, "aws/bert", "samples: '' is not a number"),
        (FITS.replace(",1.0,0.1,0.1", ",0.5,0.1,0.1"), "aws/bert@8", "line 2, gamma: 0.5 is not from 1"),
        ("", "x", "line 1: no table of costs"),
    ],
)
def test_what_is_wrong_is_refused_with_line_and_field(tmp_path: Path, text: str, names: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        costs(tmp_path, text, names)
    assert said in str(refused.value)


def test_words_that_name_no_costs_are_refused() -> None:
    for text in ("", "fast", "1/1/1", "1/1/1/0.5", ":x", "x:", "/nowhere.csv:x"):
        with pytest.raises(BadInput):
            parse_costs(text)


def test_jobs_of_several_gpus_draw_one_of_the_mix_by_the_seed_and_the_others_stay_as_they_are() -> None:
    load = synthetic_workload(parse_recipe("synthetic:jobs=2000"), Options(), 1)
    mix = CostMix((("near", (1, 1, 1, 1)), ("far", (1, 1, 2, 4))))
    one, again, other = mix.given(load, 1), mix.given(load, 1), mix.given(load, 2)
    assert [w.app.comm for w in one.works] == [w.app.comm for w in again.works]
    assert [w.app.comm for w in one.works] != [w.app.comm for w in other.works]
    wide = [w for w in one.works if w.gpus > 1]
    assert 0.3 < sum(w.app.comm[3] == 4 for w in wide) / len(wide) < 0.7
    assert all(w.app is was.app for w, was in zip(one.works, load.works, strict=True) if was.gpus == 1)
    assert len({id(w.app) for w in wide}) == 6  # one of each class and cost


def test_a_load_is_the_share_of_the_gpus_that_the_jobs_need() -> None:
    load = synthetic_workload(parse_recipe("synthetic:jobs=500"), Options(), 1)
    for share in (0.5, 4.0):
        works = at_load(load, share, 64).works
        span = works[-1].submit - works[0].submit
        assert sum(w.gpus * w.ideal_s() for w in works) / (64 * span) == pytest.approx(share)
        assert [w.id for w in works] == [w.id for w in load.works]
    alone = synthetic_workload(parse_recipe("synthetic:jobs=1"), Options(), 1)
    assert at_load(alone, 0.5, 64) is alone
