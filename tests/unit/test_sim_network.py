"""Links that jobs share: closed forms, a plain slow reference, and what the engine makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from pal_slurm.errors import BadInput
from pal_slurm.model import App, Gpus, ScoreTable, neutral_scores
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.costs import parse_uplinks
from pal_slurm.sim.engine import NEVER, ClusterRules, Engine, Run, Stage
from pal_slurm.sim.network import Link, Network, fair_rates
from pal_slurm.sim.workload import Work, workload

CAPACITY = {0: 1.0, 1: 2.0, 2: 3.0}


def poured(flows: Mapping[int, frozenset[Link]], capacity: Mapping[int, float]) -> dict[int, float]:
    """The same by pouring a little into everybody who still has room, again and again."""
    drop = 1e-4
    rates = dict.fromkeys(flows, 0.0)
    used = {link: 0.0 for links in flows.values() for link in links}
    open_ = set(flows)
    while open_:
        for job in sorted(open_):
            rates[job] += drop
            for link in flows[job]:
                used[link] += drop
        full = {link for link in used if used[link] >= capacity[link[0]] - drop / 2}
        open_ = {job for job in open_ if rates[job] < 1.0 - drop / 2 and not flows[job] & full}
    return rates


@pytest.mark.parametrize(
    ("flows", "rates"),
    [
        ({1: [(0, 0), (0, 1)]}, {1: 1.0}),  # alone
        ({1: [(0, 0)], 2: [(0, 0)]}, {1: 0.5, 2: 0.5}),
        ({1: [(1, 0)], 2: [(1, 0)], 3: [(1, 0)], 4: [(1, 0)]}, {1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5}),
        ({1: [(1, 0)], 2: [(1, 0)]}, {1: 1.0, 2: 1.0}),  # a wide link serves two
        # the textbook's line: one long flow over two links, beside one and two short ones
        ({1: [(0, 0), (0, 1)], 2: [(0, 0)], 3: [(0, 1)], 4: [(0, 1)]}, {1: 1 / 3, 2: 2 / 3, 3: 1 / 3, 4: 1 / 3}),
    ],
)
def test_rates_are_those_of_the_closed_form(flows: dict[int, list[Link]], rates: dict[int, float]) -> None:
    assert fair_rates(flows, CAPACITY) == pytest.approx(rates)


def test_rates_are_those_of_a_plain_slow_reference_on_drawn_networks() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        links = [(level, number) for level in (0, 1, 2) for number in range(3)]
        flows = {job: frozenset(rng.sample(links, rng.randint(1, 4))) for job in range(rng.randint(1, 9))}
        assert fair_rates(flows, CAPACITY) == pytest.approx(poured(flows, CAPACITY), abs=2e-3), seed


def test_what_changes_one_by_one_is_what_is_reckoned_at_once() -> None:
    cluster = parse_cluster("16x2/2/8")
    for seed in range(30):
        rng, network, here = random.Random(seed), Network(cluster, (1.0, 2.0)), dict[int, Gpus]()
        rates: dict[int, float] = {}
        for job in range(60):
            if here and rng.random() < 0.45:
                gone = rng.choice(sorted(here))
                del here[gone], rates[gone]
                changed = network.leaves(gone)
            else:
                here[job] = tuple(sorted(rng.sample(range(32), rng.choice((1, 2, 4, 8)))))
                changed = [job, *network.joins(job, here[job])]
            rates |= {other: network.rate(other) for other in changed}
            fresh = Network(cluster, (1.0, 2.0))
            for other, gpus in here.items():
                fresh.joins(other, gpus)
            assert rates == pytest.approx({other: fresh.rate(other) for other in here})


class Given:
    """Starts each job on its GPUs at once."""

    name, restless, wake_at = "given", False, NEVER

    def __init__(self, where: Mapping[int, Gpus]) -> None:
        self._where, self._new = where, list[Run]()

    def arrive(self, run: Run) -> None:
        self._new.append(run)

    def ended(self, run: Run, gpus: Gpus) -> None:
        """It had them to itself."""

    def learn(self, known: ScoreTable) -> None:
        """It goes by nothing that is known."""

    def act(self, stage: Stage) -> None:
        for run in self._new:
            stage.start(run, self._where[run.work.id])
        self._new.clear()


def ends(where: Mapping[int, Gpus], submits: list[float], uplinks: tuple[float, ...]) -> tuple[list[float], float]:
    """100 s of steps each; across racks twice as long."""
    cluster = parse_cluster("8x1/2")
    app = App("x", "A", {"gpu": 1.0}, (1.0, 1.0, 1.5, 2.0))
    load = workload([Work(i, submits[i - 1], len(gpus), 100.0, app) for i, gpus in where.items()])
    outcome = Engine(cluster, neutral_scores(cluster), load, Given(where), ClusterRules(uplinks=uplinks)).run()
    return outcome.end_s.tolist(), outcome.comm_s


def test_two_jobs_that_share_an_uplink_communicate_half_as_fast_while_both_run() -> None:
    far = {1: (0, 2), 2: (1, 3)}  # racks 0 and 1 both
    assert ends(far, [0.0, 0.0], ()) == ([200.0, 200.0], 100.0)
    assert ends(far, [0.0, 0.0], (2.0,)) == ([200.0, 200.0], 100.0)
    alone, _ = ends({1: (0, 2)}, [0.0], (1.0,))
    assert alone == [200.0]
    together, lost = ends(far, [0.0, 0.0], (1.0,))
    assert together == pytest.approx([300.0, 300.0]) and lost == pytest.approx(200.0)
    # the second comes when the first has done half: 50 steps at 2 s, then both at 3 s; alone again, 2 s
    late, lost = ends(far, [0.0, 100.0], (1.0,))
    assert late == pytest.approx([250.0, 350.0])
    assert lost == pytest.approx((150.0 + 150.0) / 2)


def test_jobs_within_a_rack_or_a_node_share_no_uplink_of_racks() -> None:
    found, _ = ends({1: (0, 1), 2: (2, 3), 3: (4,)}, [0.0] * 3, (0.1,))
    assert found == pytest.approx([150.0, 150.0, 100.0])
    far, _ = ends({1: (0, 2), 2: (4, 6)}, [0.0] * 2, (1.0,))  # no rack in common
    assert far == pytest.approx([200.0, 200.0])


def test_uplinks_are_given_per_level() -> None:
    assert (parse_uplinks(""), parse_uplinks("2"), parse_uplinks("1.5/8")) == ((), (2.0,), (1.5, 8.0))
    for text in ("0", "x", "1/", "-1", "nan", "1/0"):
        with pytest.raises(BadInput):
            parse_uplinks(text)
    assert np.isfinite(Network(parse_cluster("4x1/1/2"), (1.0,)).rate(7))
