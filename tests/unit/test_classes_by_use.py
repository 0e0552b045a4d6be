"""Classes of applications by what they use: clusters, names, joining, and who is asked first."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pal_slurm.config import load
from pal_slurm.learning.classes import learn_classes
from pal_slurm.model import App
from pal_slurm.scores.classes import Features, classify, kmeans, silhouette
from pal_slurm.store import AppRepo, Store
from pal_slurm.store.learned import LearnedRepo
from pal_slurm.store.samples import JobSample, SampleRepo

NAMES = ("A", "B", "C")
FAMILIES = {"A": (0.85, 0.25), "B": (0.55, 0.50), "C": (0.20, 0.80)}
NOW = 1_790_000_000.0


def family(cls: str, count: int, rng: random.Random) -> dict[str, Features]:
    compute, memory = FAMILIES[cls]
    return {
        f"{cls.lower()}{i}": Features(compute + rng.gauss(0, 0.03), memory + rng.gauss(0, 0.03)) for i in range(count)
    }


@pytest.mark.parametrize("seed", range(10))
def test_three_families_are_found_and_named_by_how_compute_bound_they_are(seed: int) -> None:
    rng = random.Random(seed)
    apps = {**family("C", 3, rng), **family("A", 4, rng), **family("B", 3, rng)}
    classes = classify(apps, NAMES)
    assert classes is not None
    assert {app: classes.join(f).cls for app, f in apps.items()} == {app: app[0].upper() for app in apps}


def test_two_families_are_the_first_and_the_last_class() -> None:
    rng = random.Random(1)
    classes = classify({**family("C", 4, rng), **family("A", 4, rng)}, NAMES)
    assert classes is not None
    assert classes.names == ("A", "C")


def test_too_few_applications_are_no_classes() -> None:
    assert classify({}, NAMES) is None
    assert classify({"x": Features(0.5, 0.5), "y": Features(0.1, 0.9)}, NAMES) is None
    assert classify({f"x{i}": Features(0.5, 0.5) for i in range(9)}, NAMES) is None


def test_one_that_lies_between_two_classes_is_unsure_and_one_in_the_middle_is_sure() -> None:
    rng = random.Random(2)
    classes = classify({c: f for cls in NAMES for c, f in family(cls, 5, rng).items()}, NAMES)
    assert classes is not None
    assert classes.join(Features(*FAMILIES["A"])).sure > 0.99
    between = Features(0.70, 0.375)
    assert classes.join(between).sure < 0.95
    vague = Features(*FAMILIES["A"], compute_error=0.4, memory_error=0.4)
    assert classes.join(vague).sure < 0.8


def test_kmeans_is_the_same_for_any_order_of_the_points() -> None:
    rng = np.random.default_rng(4)
    points = rng.random((30, 2))
    order = rng.permutation(30)
    for k in (2, 3, 5):
        a, b = kmeans(points, k), kmeans(points[order], k)
        same = (a[order][:, None] == a[order][None]) == (b[:, None] == b[None])
        assert same.mean() > 0.9


def test_the_silhouette_is_that_of_the_definition() -> None:
    points = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 0.0]])
    labels = np.array([0, 0, 1])
    first = (5.0 - 1.0) / 5.0
    second = (np.sqrt(26) - 1.0) / np.sqrt(26)
    assert silhouette(points, labels) == pytest.approx((first + second + 0.0) / 3)


# With the store -----


def put(store: Store, app: str, cls: str, jobs: int = 3, seed: int = 1, user: str = "") -> None:
    rng = random.Random(f"{app}{seed}{user}")
    compute, memory = FAMILIES[cls]
    SampleRepo(store).add(
        [
            JobSample(
                f"{app}-{j}-{i}{user}", "c", f"{j}{user}", app, "n1", ("GPU-1",), NOW - 1000, NOW - 400, 0,
                None, compute + rng.gauss(0, 0.03), memory + rng.gauss(0, 0.03), user=user,
            )
            for j in range(jobs)
            for i in range(2)
        ]
    )  # fmt: skip


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "pal.yaml"
    path.write_text("apps:\n  mine: {class: C}\n")
    return path


def test_what_somebody_said_stays_and_the_others_are_measured(store: Store, config_file: Path) -> None:
    for app, cls in (
        ("mine", "A"),
        ("told", "A"),
        ("vgg", "A"),
        ("bert", "B"),
        ("gpt", "B"),
        ("rank", "C"),
        ("lbm", "C"),
    ):
        put(store, app, cls)
    AppRepo(store).set([App("told", "B")], "admin", NOW)
    done = learn_classes(store, load(config_file), NOW)
    stored = {name: (entry.app.cls, entry.source) for name, entry in AppRepo(store).all().items()}
    assert stored == {
        "told": ("B", "admin"), "vgg": ("A", "measured"), "bert": ("B", "measured"), "gpt": ("B", "measured"),
        "rank": ("C", "measured"), "lbm": ("C", "measured"),
    }  # fmt: skip
    assert (done.apps, done.classes) == (7, 5)
    features = LearnedRepo(store).features()
    assert features["bert"].jobs == 3
    assert features["bert"].compute == pytest.approx(0.55, abs=0.05)
    assert (features["bert"].sure or 0) > 0.9


def test_an_application_that_changed_changes_its_class(store: Store, config_file: Path) -> None:
    for app, cls in (("vgg", "A"), ("bert", "B"), ("gpt", "B"), ("rank", "C"), ("lbm", "C"), ("new", "A")):
        put(store, app, cls)
    config = load(config_file)
    learn_classes(store, config, NOW)
    assert AppRepo(store).all()["new"].app.cls == "A"
    put(store, "new", "C", jobs=40, seed=2)
    assert learn_classes(store, config, NOW).classes == 1
    assert AppRepo(store).all()["new"].app.cls == "C"


def test_a_users_many_jobs_of_a_name_do_not_change_the_class_of_another_users(store: Store, config_file: Path) -> None:
    for app, cls in (("vgg", "A"), ("bert", "B"), ("gpt", "B"), ("rank", "C"), ("lbm", "C"), ("net", "A")):
        put(store, app, cls, user="alice")
    config = load(config_file)
    learn_classes(store, config, NOW)
    assert AppRepo(store).all()["net"].app.cls == "A"
    put(store, "net", "C", jobs=60, user="mallory")
    assert learn_classes(store, config, NOW).classes == 0
    assert AppRepo(store).all()["net"].app.cls == "A"
    put(store, "net", "C", jobs=2, user="carol")
    learn_classes(store, config, NOW)
    assert AppRepo(store).all()["net"].app.cls == "C"  # two of three


def test_a_users_many_names_do_not_make_the_families_of_the_others(store: Store, config_file: Path) -> None:
    apps = (("vgg", "A"), ("bert", "B"), ("gpt", "B"), ("rank", "C"), ("lbm", "C"), ("net", "A"))
    for app, cls in apps:
        put(store, app, cls, user="alice")
    config = load(config_file)
    learn_classes(store, config, NOW)
    before = {app: AppRepo(store).all()[app].app.cls for app, _ in apps}
    for n in range(60):
        put(store, f"many{n}", "C", jobs=1, user="mallory")
    learn_classes(store, config, NOW)
    assert {app: AppRepo(store).all()[app].app.cls for app, _ in apps} == before


def test_the_newest_of_each_user_are_looked_at_however_many_one_has(store: Store) -> None:
    put(store, "net", "A", user="alice")
    put(store, "net", "C", jobs=30, user="mallory")
    found = SampleRepo(store).of_app("net", 0.0, most=10)
    assert {user: sum(s.user == user for s in found) for user in ("alice", "mallory")} == {"alice": 6, "mallory": 10}


def test_nothing_seen_is_nothing_learned(store: Store, config_file: Path) -> None:
    assert learn_classes(store, load(config_file), NOW).apps == 0
    assert AppRepo(store).all() == {}
