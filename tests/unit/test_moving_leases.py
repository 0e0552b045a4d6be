"""Dally whole, by tables: who is offered what and when, who skips, what the end of a lease takes and gives back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.published.admission import ActiveJob
from benchmarks.published.dally import Leases
from benchmarks.published.orders import order_named
from benchmarks.published.policies import Published, PublishedSpec
from pal_slurm.cli.commands.simulate import command
from pal_slurm.errors import ConfigError
from pal_slurm.model import App, Cluster, Gpus, Shape, homogeneous, neutral_scores
from pal_slurm.policy import Progress
from pal_slurm.policy.patience.dally import Dally
from pal_slurm.sim.engine import ClusterRules
from pal_slurm.sim.policies import Setting
from tests.builders import waiting

LEASE = 3600.0
TWO_RACKS = homogeneous(4, 4, rack_size=2)  # GPUs 0-7 are a rack of two nodes, 8-15 the other
APP = App("x", "A")


def lender(cluster: Cluster = TWO_RACKS) -> Leases:
    return Leases(Dally(int(LEASE), 24, 6, 12), order_named("nw-sens"), cluster)


def contender(
    number: int, gpus: int, submit: float = 0.0, *, speed: float = 0.0, held: Gpus = (), movable: bool = True
) -> ActiveJob:
    """`speed`: the share of its ideal speed that it has had; 0: it never ran."""
    job = waiting(number, submit=int(submit), start=int(submit) if held else None, shape=Shape(gpus=gpus))
    had = Progress(attained_s=100.0 if speed else 0.0, done_s=100.0 * speed)
    return ActiveJob(job, APP, gpus, lambda now: had, movable, held)


def acts(lending: Leases, now: float) -> Mapping[int, Gpus]:
    where = lending.act(now)
    assert where is not None
    return where


def test_a_node_is_taken_at_once_and_the_first_that_fits_not_the_best() -> None:
    lending = lender()
    lending.arrive(contender(1, 3, held=(8, 9, 10), movable=False))
    lending.arrive(contender(2, 1))
    assert acts(lending, 10.0)[2] == (0,)


@pytest.mark.parametrize(
    ("gpus", "where"), [(5, (0, 1, 2, 3, 4)), (8, tuple(range(8))), (9, tuple(range(9))), (16, tuple(range(16)))]
)
def test_who_needs_more_than_a_node_or_a_rack_has_does_not_wait_for_one(gpus: int, where: Gpus) -> None:
    lending = lender()
    lending.arrive(contender(1, gpus))
    assert acts(lending, 0.0) == {1: where}


def full_but_for(*free: int) -> Leases:
    """All others are held by jobs that nobody may move."""
    lending = lender()
    for gpu in range(16):
        if gpu not in free:
            lending.arrive(contender(100 + gpu, 1, held=(gpu,), movable=False))
    return lending


@pytest.mark.parametrize(("free", "leases"), [((0, 1, 4, 5), 6), ((0, 1, 8, 9), 12)])
def test_a_rack_is_taken_after_six_leases_and_anything_after_twelve(free: Gpus, leases: int) -> None:
    lending = full_but_for(*free)
    lending.arrive(contender(1, 4))
    for now in (0.0, leases * LEASE - 1):
        lending.arrive(contender(2, 16))  # something happens
        assert 1 not in acts(lending, now)
    if leases == 6:
        assert lending.wake_at == 6 * LEASE
    assert acts(lending, leases * LEASE)[1] == free


def test_it_is_asked_again_when_a_timer_has_run_out_though_nothing_happens() -> None:
    lending = full_but_for(0, 1, 8, 9)
    lending.arrive(contender(1, 4))
    assert 1 not in acts(lending, 0.0) and lending.wake_at == 6 * LEASE
    assert 1 not in acts(lending, 6 * LEASE) and lending.wake_at == 12 * LEASE
    assert acts(lending, 12 * LEASE)[1] == (0, 1, 8, 9) and lending.wake_at == 13 * LEASE


def test_who_skips_holds_up_nobody_and_nothing_is_reserved_for_him() -> None:
    lending = full_but_for(0, 1, 8, 9)
    lending.arrive(contender(1, 4))
    lending.arrive(contender(2, 2, submit=5.0))
    assert 1 not in (where := acts(lending, 10.0)) and where[2] == (0, 1)


def test_between_events_nothing_is_planned() -> None:
    lending = lender()
    lending.arrive(contender(1, 2))
    assert acts(lending, 0.0) and lending.act(LEASE - 1) is None
    assert lending.act(LEASE) == {1: (0, 1)}


def test_at_the_end_of_a_lease_newcomers_come_first_then_who_was_slowed_most() -> None:
    lending = lender(homogeneous(1, 4))
    lending.arrive(contender(1, 4, speed=0.9))
    assert acts(lending, 0.0) == {1: (0, 1, 2, 3)}
    lending.arrive(contender(2, 2, submit=10.0, speed=0.5))
    lending.arrive(contender(3, 2, submit=20.0))
    assert acts(lending, 20.0) == {1: (0, 1, 2, 3)}  # until then nobody is stopped
    assert acts(lending, LEASE) == {3: (0, 1), 2: (2, 3)}
    assert acts(lending, 2 * LEASE) == {3: (0, 1), 2: (2, 3)}  # both are slower than the first has been


def test_whom_nobody_follows_keeps_his_gpus_and_has_a_new_lease() -> None:
    lending = lender()
    first = contender(1, 2)
    lending.arrive(first)
    lending.arrive(contender(2, 2))
    assert acts(lending, 0.0) == {1: (0, 1), 2: (2, 3)}
    lending.ended(first)
    assert acts(lending, LEASE) == {2: (2, 3)} and lending.wake_at == 2 * LEASE


def test_on_a_rack_it_gets_a_node_at_the_end_of_its_lease_or_loses_its_gpus_and_waits_anew() -> None:
    lending, held = full_but_for(0, 1, 4, 5), (0, 1, 4, 5)
    lending.arrive(contender(1, 4, held=held, speed=0.7))
    assert acts(lending, 10.0)[1] == held
    assert 1 not in acts(lending, LEASE) and lending.wake_at == 7 * LEASE
    assert acts(lending, 7 * LEASE)[1] == held
    better = lender()
    better.arrive(contender(1, 4, held=held, speed=0.7))
    acts(better, 10.0)
    assert acts(better, LEASE) == {1: (0, 1, 2, 3)}


def test_what_jobs_of_its_size_waited_for_nodes_lengthens_the_timer_for_a_rack() -> None:
    lending = full_but_for(0, 1, 2)
    waits = [contender(number, 3, submit=number) for number in (1, 2)]
    lending.arrive(contender(3, 3, held=(0, 1, 2), movable=False))
    lending.arrive(waits[0])
    acts(lending, 1.0)
    lending.ended(contender(3, 3))
    assert acts(lending, 1.0 + 10 * LEASE)[1] == (0, 1, 2)
    lending.ended(waits[0])
    lending.arrive(contender(4, 1, held=(0,), movable=False))
    lending.arrive(contender(5, 1, held=(2,), movable=False))
    here = 1.0 + 10 * LEASE
    lending.ended(contender(104, 1))
    lending.ended(contender(105, 1))
    lending.arrive(contender(6, 3, submit=here))
    assert 6 not in acts(lending, here) and lending.wake_at == math.floor(here) + 10 * LEASE


def test_in_the_simulator_leases_end_and_all_jobs_do(tmp_path: Path) -> None:
    def told(policy: str) -> dict[str, float]:
        out = tmp_path / "out.json"
        words = ["synthetic:jobs=120", "--cluster", "8x4/2", "--comm", "1/1/1.3/2", "--policy", policy]
        done = CliRunner().invoke(command, [*words, "--json", str(out)], obj=Published())
        assert done.exit_code == 0, done.output
        assert ("nw-sens" in done.output) == (policy != "dally")
        [found] = json.loads(out.read_text())
        assert isinstance(found, dict)
        return found

    lent, kept = told("artifact/dally"), told("dally")
    assert kept["restarts"] == 0 < lent["restarts"]
    longer = tmp_path / "longer.yaml"
    longer.write_text("policy: artifact/dally\nleases: [100000000, 24, 6, 12]\n")
    assert told(str(longer))["restarts"] == 0


def test_leases_are_refused_beside_a_placement() -> None:
    spec = PublishedSpec(policy="artifact/dally", placement="lv")
    with pytest.raises(ConfigError, match="leave placement"):
        Published().scheduler(spec, Setting(TWO_RACKS, 1.7, ClusterRules(), True), neutral_scores(TWO_RACKS), 0)
