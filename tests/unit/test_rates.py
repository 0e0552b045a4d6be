"""How fast applications are on each model: told, seen in jobs, in their class, at night; never by one user's word."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from sqlalchemy import insert, select

from pal_slurm.cli.answers import ANSWERS
from pal_slurm.cli.palctl import palctl
from pal_slurm.config import Config
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.learning.rates import Edge, RateEvidence, RatesShown, complete
from pal_slurm.model import App, Apps
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.store import AppRepo, GpuRepo, JobOutcome, OutcomeRepo, Sighting, Store, open_store
from pal_slurm.store.tables import Baseline, gpus, nights
from pal_slurm.store.votes import UserApp, VoteRepo

MODELS = ("old", "new")
NOW = 1_790_000_000.0


def saw(apart: float, var: float = 0.003, source: str = "app") -> RatesShown:
    """A step takes so many times as long on the old model."""
    return RatesShown((Edge(MODELS, -log(apart), var, source),), {"old": log(apart), "new": 0.0})


def ratio(apps: Apps, name: str | None, user: str = "") -> float:
    """How many times as fast it counts as on the new model."""
    base = apps.get(name, user).base
    return base["old"] / base["new"]


def source(apps: Apps, name: str | None, user: str = "") -> str:
    return apps.get(name, user).trust("old").source


def known(*apps: App) -> Apps:
    return Apps({app.name: app for app in apps})


X, Y = App("x", "A"), App("y", "A")


def test_with_one_model_applications_stay_as_they_are() -> None:
    apps = known(X)
    assert complete(apps, ("only",), RateEvidence({"x": {"u": saw(4.0)}})) is apps


def test_what_is_told_stands_whatever_jobs_say() -> None:
    told = App("x", "A", {"old": 0.3, "new": 0.1})
    shown = {"x": {f"u{i}": saw(9.0) for i in range(5)}}
    apps = complete(known(told), MODELS, RateEvidence(shown))
    assert apps.get("x").base == told.base and apps.get("x", "u1").base == told.base
    assert (source(apps, "x"), apps.get("x").trust("old").doubt) == ("told", 0.0)


def test_of_an_application_of_which_nothing_is_known_nothing_is_made_up() -> None:
    apps = complete(known(X), MODELS, RateEvidence())
    assert apps.get("x").base == {} and apps.get(None).base == {}


def test_a_model_that_nobody_told_of_counts_as_the_mean_of_the_others() -> None:
    app = App("x", "A", {"a": 1.0, "b": 4.0})
    rated = complete(known(app), ("a", "b", "c"), RateEvidence()).get("x")
    assert rated.base == {"a": 1.0, "b": 4.0, "c": pytest.approx(2.0)}
    assert rated.trust("a").source == "told" and rated.trust("c").source == "none" and rated.trust("c").doubt > 1


def test_a_users_own_jobs_count_for_his_own_and_for_nobody_else_alone() -> None:
    apps = complete(known(X), MODELS, RateEvidence({"x": {"liar": saw(9.0), "other": saw(8.0)}}))
    assert ratio(apps, "x", "liar") == pytest.approx(9.0, rel=0.05)
    assert apps.get("x", "honest").base == {}
    assert apps.get("x").base == {}


def test_who_runs_jobs_of_many_sizes_has_one_vote_all_the_same() -> None:
    """Each size links the models once more."""
    sizes = RatesShown(saw(1000.0).edges * 5, saw(1000.0).levels)
    alone = complete(known(X), MODELS, RateEvidence({"x": {"liar": sizes}}))
    assert alone.get("x").base == {} and alone.get("x", "honest").base == {}
    honest = {f"u{i}": saw(4.0) for i in range(3)}
    lied = complete(known(X), MODELS, RateEvidence({"x": {**honest, "liar": sizes}}))
    assert ratio(lied, "x", "new") == pytest.approx(4.0, rel=0.06)


def test_three_users_tell_it_for_all_and_one_of_them_who_lies_moves_it_little() -> None:
    honest = {f"u{i}": saw(4.0 + 0.1 * i) for i in range(3)}
    true = ratio(complete(known(X), MODELS, RateEvidence({"x": honest})), "x", "new")
    for lie in (1e-3, 1000.0):
        lied = complete(known(X), MODELS, RateEvidence({"x": {**honest, "u2": saw(lie)}}))
        assert ratio(lied, "x", "new") == pytest.approx(true, rel=0.06)
        assert ratio(lied, "x", "u0") == pytest.approx(4.0, rel=0.06)  # whose own jobs say so


def test_a_class_is_told_by_its_told_applications_with_doubt() -> None:
    told = App("y", "A", {"old": 0.4, "new": 0.1})
    apps = complete(known(X, told, App("z", "B")), MODELS, RateEvidence())
    assert 3.0 < ratio(apps, "x") < 4.0  # shrunk
    assert source(apps, "x") == "class" and 0.2 < apps.get("x").trust("old").doubt < 0.5
    assert apps.get("z").base == {}


def test_lies_about_one_application_do_not_move_others_of_its_class() -> None:
    lied = complete(known(X, Y), MODELS, RateEvidence({"y": {"liar": saw(1000.0), "accomplice": saw(900.0)}}))
    assert lied.get("x").base == {}


def test_nights_tell_what_nobody_else_does_and_own_jobs_outweigh_them() -> None:
    nights = {"A": (Edge(MODELS, -log(2.0), 0.25, "fleet"),)}
    fleet = complete(known(X), MODELS, RateEvidence(nights=nights))
    assert 1.5 < ratio(fleet, "x") < 2.0 and source(fleet, "x") == "fleet"
    assert 1.5 < ratio(fleet, None) < 2.0  # also of those that nobody named
    own = complete(known(X), MODELS, RateEvidence({"x": {"u": saw(5.0)}}, nights))
    assert 4.8 < ratio(own, "x", "u") < 5.0 and source(own, "x", "u") == "app"
    assert own.get("x", "u").trust("old").doubt < 0.1 < fleet.get("x").trust("old").doubt


def test_run_times_of_repeated_jobs_count_with_more_doubt_than_steps() -> None:
    nights = {"A": (Edge(MODELS, -log(2.0), 0.25, "fleet"),)}
    runs = complete(known(X), MODELS, RateEvidence({"x": {"u": saw(5.0, 0.17, "runs")}}, nights))
    assert 2.5 < ratio(runs, "x", "u") < 4.8 and source(runs, "x", "u") == "runs"


def test_models_that_no_job_links_are_linked_by_the_nights() -> None:
    nights = {"A": (Edge(("b", "c"), -log(2.0), 0.01, "fleet"),)}
    shown = RatesShown((Edge(("a", "b"), -log(3.0), 0.001, "app"),))
    base = complete(known(X), ("a", "b", "c"), RateEvidence({"x": {"u": shown}}, nights)).get("x", "u").base
    assert base["a"] / base["c"] == pytest.approx(6.0, rel=0.1)


# from the store

CLUSTER = parse_cluster("old:2x2+new:2x2")
CARDS = {"old": "Card Old 16 GB", "new": "Card New 80 GB"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = open_store(f"sqlite:///{tmp_path}/pal.sqlite", create=True)
    for node in CLUSTER.node_names:
        model = CLUSTER.models[CLUSTER.gpu_model[CLUSTER.node_index[node], 0]]
        GpuRepo(made).see([Sighting(f"GPU-{node}-{slot}", node, slot, CARDS[model]) for slot in range(2)], NOW)
    AppRepo(made).set([X], "admin", NOW)
    return made


def rates(store: Store, now: float = NOW) -> Apps:
    return KnowledgeKeeper(store, Config(), cluster="c").read(CLUSTER, now).apps


def steps(user: str, **seconds: float) -> UserApp:
    base = {f"{CARDS[model]}|1|1": Baseline(log(value), 0.001, 5) for model, value in seconds.items()}
    return UserApp("x", user, NOW, 0.05, base)


def test_step_times_of_jobs_change_the_next_plans_knowledge(store: Store) -> None:
    keeper = KnowledgeKeeper(store, Config(), cluster="c")
    assert keeper.read(CLUSTER, NOW).apps.get("x", "ann").base == {}
    VoteRepo(store).put_app(steps("ann", old=0.4, new=0.1))
    assert keeper.read(CLUSTER, NOW + 1).apps.get("x", "ann").base == {}  # looked up once a minute
    learned = keeper.read(CLUSTER, NOW + 61).apps.get("x", "ann").base
    assert learned["old"] == pytest.approx(0.4, rel=0.05) and learned["new"] == pytest.approx(0.1, rel=0.05)


def ran(job: int, node: str, seconds: float, user: str = "ann") -> JobOutcome:
    start = int(NOW) - 100_000 + 10 * job
    return JobOutcome(job, start - 5, start, "A", (node,), ((0,),), end=start + int(seconds), app="x", user=user)


def test_run_times_of_outcomes_tell_once_there_are_three_on_each_model(store: Store) -> None:
    old, new = CLUSTER.node_names[0], CLUSTER.node_names[2]
    outcomes = OutcomeRepo(store, "c")
    outcomes.record([*(ran(i, old, 4000.0) for i in range(3)), *(ran(10 + i, new, 1000.0) for i in range(2))])
    assert rates(store).get("x", "ann").base == {}
    outcomes.record([ran(12, new, 1000.0), ran(13, new, 5.0)])  # the last failed at once
    assert 2.0 < ratio(rates(store), "x", "ann") < 4.0
    assert rates(store).get("x", "bob").base == {}


@pytest.mark.parametrize(
    ("told", "known"),
    [({}, True), ({"limit_s": 7200}, True), ({"limit_s": 4000}, False), ({"named": "other"}, False)],
    ids=["as before", "the same limit", "cut off at their limit", "of another name"],
)
def test_run_times_tell_of_jobs_that_are_alike_and_ended_by_themselves(
    store: Store, told: dict[str, Any], known: bool
) -> None:
    old, new = CLUSTER.node_names[0], CLUSTER.node_names[2]
    alike = {key: value for key, value in told.items() if key == "limit_s"}
    slow = [replace(ran(i, old, 4000.0), **told) for i in range(3)]
    OutcomeRepo(store, "c").record([*slow, *(replace(ran(10 + i, new, 1000.0), **alike) for i in range(3))])
    assert bool(rates(store).get("x", "ann").base) is known


def test_nights_of_the_store_give_the_fleets_ratio(store: Store) -> None:
    seconds = {CARDS["old"]: 0.3, CARDS["new"]: 0.1}
    with store.writing() as db:
        for card in db.execute(select(gpus.c.id, gpus.c.model)).all():
            row = {
                "gpu_id": card.id, "cls": "A", "app": "resnet", "scope": "gpu", "night": 20_700, "spread": 0.01,
                "seconds": seconds[card.model], "stalled": 0.0, "runs": 5, "stalls": 0, "node_stalls": 0,
                "measured_at": NOW, "node": "n", "setup": "",
            }  # fmt: skip
            db.execute(insert(nights).values(row))
    assert 1.8 < ratio(rates(store), "x") < 3.0
    assert source(rates(store), "x") == "fleet"


# palctl apps --rates


def rates_of(tmp_path: Path, *words: str) -> list[dict[str, object]]:
    (tmp_path / "pal.yaml").write_text(
        f"state_dir: {tmp_path}\ncluster: {{bin_dir: /nowhere, backend: cli}}\n"
        f"apps: {{z: {{class: A, base: {{{CARDS['old']}: 0.4, {CARDS['new']}: 0.1}}}}}}\n"
    )
    said = CliRunner().invoke(palctl, ["--config", f"{tmp_path}/pal.yaml", "apps", "--rates", *words, "--json"])
    assert said.exit_code == 0, said.output
    msgspec.json.decode(said.stdout, type=ANSWERS["apps"])
    found: list[dict[str, object]] = json.loads(said.stdout)
    return found


def test_palctl_shows_each_rate_with_its_doubt_and_who_says_so(store: Store, tmp_path: Path) -> None:
    VoteRepo(store).put_app(steps("ann", old=0.8, new=0.1))
    told = {(row["app"], row["model"]): row for row in rates_of(tmp_path)}
    assert [told["z", CARDS[m]]["rate"] for m in MODELS] == [0.25, 1.0]
    assert {told["z", CARDS[m]]["source"] for m in MODELS} == {"told"} and told["z", CARDS["old"]]["doubt"] == 0
    x = told["x", CARDS["old"]]  # of its class: `ann` alone tells nobody
    assert x["source"] == "class" and 0.25 < x["rate"] < 0.35 and 0.2 < x["doubt"] < 0.5  # type: ignore[operator]
    assert ("?", CARDS["new"]) in told


def test_palctl_shows_a_user_what_counts_for_his_own_jobs(store: Store, tmp_path: Path) -> None:
    VoteRepo(store).put_app(steps("ann", old=0.8, new=0.1))
    mine = {(row["app"], row["model"]): row for row in rates_of(tmp_path, "--user", "ann")}["x", CARDS["old"]]
    assert mine["source"] == "app" and mine["rate"] == pytest.approx(0.125, rel=0.05)
    table = CliRunner().invoke(palctl, ["--config", f"{tmp_path}/pal.yaml", "apps", "--rates", "--user", "ann"])
    assert table.exit_code == 0 and "RATE" in table.output and "app" in table.output
