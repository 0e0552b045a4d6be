"""What distance costs, learned from jobs as rates are: for their user, of others only what several agree on."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import Config
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.learning.spans import with_spans
from pal_slurm.model import App, Apps, RatedApp, Tier
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.store import Store, open_store
from pal_slurm.store.learned import AppFeatures, LearnedRepo
from pal_slurm.store.tables import Baseline
from pal_slurm.store.votes import UserApp, VoteRepo

NOW = 1_790_000_000.0
X = App("x", "A")


def saw(user: str, far: float, app: str = "x", jobs: int = 20, var: float = 0.0005) -> UserApp:
    """Four GPUs on two nodes took so many times as long as on one."""
    base = {"a100|4|1": Baseline(log(0.2), var, jobs), "a100|4|2": Baseline(log(0.2 * far), var, jobs)}
    return UserApp(app, user, NOW, base=base)


def cost(apps: Apps, name: str = "x", user: str = "") -> float:
    comm = apps.get(name, user).comm
    assert comm[Tier.GPU] == comm[Tier.NODE] == 1.0 and comm[Tier.RACK] == comm[Tier.CLUSTER]
    return comm[Tier.CLUSTER]


def test_a_users_own_jobs_tell_it_for_his_own_and_for_others_only_several_users_do() -> None:
    apps = Apps({"x": X})
    alone = with_spans(apps, [saw("liar", 9.0), saw("other", 2.0)])
    assert cost(alone, user="liar") == pytest.approx(9.0, rel=0.06)
    assert cost(alone, user="other") == pytest.approx(2.0, rel=0.06)
    assert cost(alone) == cost(alone, user="honest") == 1.0
    agreed = with_spans(apps, [saw("liar", 9.0), *(saw(f"u{i}", 2.0) for i in range(3))])
    assert cost(agreed, user="honest") == pytest.approx(2.0, rel=0.06)


def test_what_is_in_doubt_counts_as_little_as_it_may_be() -> None:
    apps = Apps({"x": X})
    sure, few, odd = (cost(with_spans(apps, [saw("u", 2.0, jobs=n, var=v)]), user="u") for n, v in
                      ((1000, 1e-5), (2, 0.01), (1, 1.0)))  # fmt: skip
    assert 2.0 > sure > few > odd == 1.0
    assert cost(with_spans(apps, [saw("u", 0.5)]), user="u") == 1.0  # distance makes nothing faster


def test_what_is_told_stands_and_who_has_nothing_to_compare_tells_nothing() -> None:
    told = Apps({"x": App("x", "A", comm=(1.0, 1.0, 1.1, 1.4))})
    assert with_spans(told, [saw("u", 9.0)]) is told
    apps = Apps({"x": X})
    lone = UserApp("x", "u", NOW, base={"a100|4|2": Baseline(0.0, 0.001, 9), "a100|8|1": Baseline(9.0, 0.001, 9)})
    single = UserApp("x", "u", NOW, base={"a100|1|1": Baseline(0.0, 0.001, 9), "odd": Baseline(9.0, 0.001, 9)})
    assert with_spans(apps, [lone, single]) is apps


def test_rates_stay_and_one_application_says_nothing_of_another_of_its_class() -> None:
    rated = RatedApp("x", "A", {"old": 2.0, "new": 1.0})
    mine = RatedApp("x", "A", {"old": 3.0, "new": 1.0})
    apps = Apps({"x": rated, "y": App("y", "A")}, own={("u", "x"): mine})
    found = with_spans(apps, [saw(f"v{i}", 2.0) for i in range(3)])
    assert cost(found, user="u") == cost(found) > 1.5
    assert (found.get("x", "u").base, found.get("x").base) == (mine.base, rated.base)
    assert found.get("y") is apps.known["y"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\n")
    assert CliRunner().invoke(palctl, ["--config", str(tmp_path / "pal.yaml"), "db", "upgrade"]).exit_code == 0
    return open_store(f"sqlite:///{tmp_path}/pal.sqlite")


def test_plans_count_with_it_and_palctl_apps_comm_says_that_jobs_told_it(store: Store, tmp_path: Path) -> None:
    """Also of an application that nobody described."""
    cluster = parse_cluster("4x4/2")
    keeper = KnowledgeKeeper(store, Config())
    assert keeper.rated(cluster, NOW).get("x", "u0").comm == (1.0, 1.0, 1.0, 1.0)
    for i in range(3):
        VoteRepo(store).put_app(saw(f"u{i}", 2.0))
    LearnedRepo(store).set_features([AppFeatures("x", NOW, 6)])
    assert cost(keeper.rated(cluster, NOW + 61.0), user="somebody") == pytest.approx(2.0, rel=0.06)
    done = CliRunner().invoke(palctl, ["--config", str(tmp_path / "pal.yaml"), "apps", "list", "--json"])
    [row] = json.loads(done.output)
    assert (row["comm_source"], row["rack"]) == ("jobs", row["cluster"]) and 1.8 < row["cluster"] < 2.0
