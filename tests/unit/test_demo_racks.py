"""What scripts/demo --racks submits and counts: costs of distance by application and span, and who is the best."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from demo_lib import racks
from demo_lib.figures import BySpan, Figures, figures
from demo_lib.run import Ran
from demo_lib.speeds import make
from demo_lib.workload import COMM, DemoJob
from minicluster_lib.errors import MiniclusterError
from minicluster_lib.spec import Spec

SPEEDS = make(4, 4, 1, slow_cards=False)


def ran(number: int, app: str, nodes: tuple[str, ...], span: str, comm: float, ran_s: float) -> Ran:
    places = tuple((node, f"g{slot}") for node in nodes for slot in range(4))
    job = DemoJob(number, 0.0, app, len(places), 100, apart=True)
    return Ran(job, 0.0, ran_s, ran_s, ran_s, places, span, comm)


def arm(avg_jct_s: float) -> Figures:
    return figures([ran(1, "bert", ("n1", "n2"), "rack", 2.0, avg_jct_s)], SPEEDS)


def test_what_the_span_cost_is_counted_by_application_and_span() -> None:
    found = figures(
        [
            ran(1, "bert", ("n1", "n2"), "rack", 2.4, 24.0),
            ran(2, "bert", ("n1", "n2"), "rack", 2.4, 48.0),
            ran(3, "bert", ("n1", "n4"), "cluster", 4.0, 40.0),
            ran(4, "resnet", ("n3",), "node", 1.0, 10.0),
        ],
        SPEEDS,
    )
    assert found.by_span["bert"] == {"node": BySpan(0, 0.0), "rack": BySpan(2, 42.0), "cluster": BySpan(1, 30.0)}
    assert found.by_span["resnet"]["node"] == BySpan(1, 0.0)


def test_a_job_of_that_story_says_what_distance_costs_it_and_what_its_arm_adds() -> None:
    told = DemoJob(1, 0.0, "bert", 8, 100, apart=True).sbatch("/out", racks.arms(60.0)["switches"].sbatch)
    assert "--switches=1@300" in told and told[-1].endswith("--comm-node 1.0 --comm-rack 2.4 --comm-cluster 4.51")
    assert "--comm-rack" not in DemoJob(1, 0.0, "bert", 8, 100).sbatch("/out")[-1]


def test_pald_is_told_the_same_costs_and_dallys_timers_are_as_short_as_the_jobs() -> None:
    pald = racks.arms(60.0)["dally"].pald
    assert pald is not None and pald[pald.index("--patience") + 1] == "dally(4,24,6,12)"
    told = dict(item.split("=") for item in pald[pald.index("--comm") + 1].split(","))
    assert {app: tuple(map(float, costs.split("/"))) for app, costs in told.items()} == COMM
    for wrong in ({"bert": "1/2"}, {"bert": "1/2/x"}, {"a b": "1/2/3"}):
        with pytest.raises(MiniclusterError, match="--comm"):
            Spec("x", comm=wrong)
    with pytest.raises(MiniclusterError, match="--patience"):
        Spec("x", patience="value; rm")


@pytest.mark.parametrize(("others", "code"), [((30.0, 20.0), 0), ((30.0, 19.9), 1)])
def test_pal_has_to_be_at_or_below_each_of_the_others(others: tuple[float, float], code: int) -> None:
    results = {"stock": arm(others[0]), "switches": arm(others[1]), "pal": arm(20.0)}
    assert racks.verdict(Console(quiet=True), results) == code
