"""Policies by name; the orders."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.published.orders import order_named
from pal_slurm.errors import ConfigError
from pal_slurm.model import Job
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.policy import Order, Progress, compose, orders, patiences, placements
from pal_slurm.policy.composition import composition_names
from tests.builders import waiting


def in_order(order: Order, queue: list[Job], known: Mapping[int, Progress] = {}) -> list[int]:
    return [job.id for job in sorted(queue, key=lambda job: order.key(job, known.get(job.id)))]


def test_every_seam_lists_its_members() -> None:
    assert set(orders.names()) == {"fifo", "slurm"}
    assert {"lv", "packed", "pm-first", "random"} <= set(placements.names())
    assert "none" in patiences.names()


@pytest.mark.parametrize("name", ["", "lw", "lv(", "../lv", "lv(x)"])
def test_an_unknown_name_is_answered_with_those_that_exist(name: str) -> None:
    with pytest.raises(ConfigError, match=r"choose one of .*lv"):
        placements.get(name)


@pytest.mark.parametrize("name", composition_names())
def test_every_named_composition_can_be_made(name: str) -> None:
    made = compose(name)
    assert made.name == name
    owed = made.entitlement.name if made.entitlement is not None else ""
    assert owed == {"gavel": "gavel/max-min"}.get(name, name if name.startswith("gavel/") else "")


def test_parts_of_a_composition_can_be_changed() -> None:
    made = compose("pal", order="fifo", placement="random(4)", fill="none")
    assert made.fill.strict
    assert in_order(made.order, [waiting(1, priority=1), waiting(2, priority=5)]) == [1, 2]
    with pytest.raises(ConfigError, match="no policy 'gold'"):
        compose("gold")


def test_slurm_goes_by_priority_then_age_then_id() -> None:
    queue = [
        waiting(3, submit=5, priority=1),
        waiting(2, submit=4, priority=1),
        waiting(9, submit=4, priority=1),
        waiting(4, submit=0, priority=7),
    ]
    assert in_order(orders.get("slurm"), queue) == [4, 2, 9, 3]
    assert in_order(orders.get("fifo"), queue) == [4, 2, 9, 3]


def test_srtf_takes_the_time_limit_where_nobody_knows_better() -> None:
    queue = [waiting(1), waiting(2, time_limit_s=100), waiting(3, time_limit_s=50), waiting(4, time_limit_s=9)]
    known = {4: Progress(remaining_s=70.0)}
    assert in_order(order_named("srtf"), queue, known) == [3, 4, 2, 1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("n1", {"n1"}),
        ("n[1-3,07],m5", {"n1", "n2", "n3", "n07", "m5"}),
        ("r[1-2]n[08-10]", {f"r{r}n{n}" for r in (1, 2) for n in ("08", "09", "10")}),
    ],
)
def test_node_lists_fold_out(text: str, names: set[str]) -> None:
    assert expand_hosts(text) == frozenset(names)


@pytest.mark.parametrize(
    "text",
    [
        "n[",
        "n[3-1]",
        "n[a]",
        "n[]",
        "$(id)",
        "@group",
        "n[1-999999999]",
        "n1,",
        "n 1",
        "n\n",
        "a[1-150000],b[1-150000]",
    ],
)
def test_what_is_no_node_list_is_not_guessed_at(text: str) -> None:
    assert expand_hosts(text) is None
