"""P12: a tag of a more sensitive class than its user's jobs have shown takes no GPU from users who have shown theirs.

Four GPUs of which class A feels the differences, class C none. What a user has shown, the samples of his jobs say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.config import load
from pal_slurm.intake.samples import samples_of
from pal_slurm.learning.classes import learn_classes
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.model import Hint, Job, Waits, homogeneous
from pal_slurm.policy import compose, plan
from pal_slurm.probe.document import JobPart, Telemetry, Usage
from pal_slurm.store import ScoreRepo, Store
from pal_slurm.store.gpus import Sighting
from pal_slurm.store.samples import SampleRepo
from pal_slurm.store.scores import Delivery, Score
from tests.builders import NOW, leased, snapshot

NODE = homogeneous(1, 4)
SPEED = (1.0, 1.5, 1.5, 1.5)  # of each GPU, for class A
USE = {"A": (0.85, 0.25), "B": (0.55, 0.50), "C": (0.20, 0.80)}
FAMILIES = (("vgg", "A"), ("bert", "B"), ("gpt", "B"), ("rank", "C"), ("lbm", "C"))  # of a user who waits for nothing
FORGED = ("resnet", "vgg", "never-seen", None)  # told by the admin, measured of others, and two that count as class A


@dataclass
class Site:
    store: Store
    config: Path

    def ran(self, user: str, app: str, cls: str, *, jobs: int = 1, his_word: bool = False) -> None:
        """What was seen of them, by the node or in a file that he wrote."""
        compute, memory = USE[cls]
        seen = Telemetry(60, util_compute=compute + len(app) % 3 / 100, util_memory=memory)
        for number in range(jobs):
            name, at = f"{user}{app}{cls}{number}", NOW - 5000.0
            usage = (Usage("GPU-0", at, at + 500, seen),)
            part = JobPart(name, "n1", 0, "test", app, (), usage, (), (), at, at + 500, last=True)
            SampleRepo(self.store).add(samples_of(part, f"{name:x<48}", "c", user, his_word=his_word))
        learn_classes(self.store, load(self.config), NOW)

    def starts(self, *jobs: Job) -> dict[int, tuple[int, ...]]:
        """The GPUs of who starts now, by job."""
        known = KnowledgeKeeper(self.store, load(self.config)).read(NODE, NOW)
        made = plan(snapshot(*jobs, cluster=NODE), known, compose("pal", patience="none"))
        return {d.job: d.placement.gpus[0] for d in made.starts if d.placement is not None}


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Site:
    config = tmp_path / "pal.yaml"
    config.write_text("apps:\n  resnet: {class: A}\n")
    cards = [Sighting(f"GPU-{slot}", "n1", slot, "a100", NOW) for slot in range(4)]
    told = [Score(f"GPU-{s}", cls, SPEED[s] if cls == "A" else 1.0, 5, NOW) for s in range(4) for cls in "ABC"]
    ScoreRepo(store).add(Delivery("test", "test", cards, (), told), NOW)
    made = Site(store, config)
    for app, cls in FAMILIES:
        made.ran("zoe", app, cls, jobs=2)
    return made


def job(number: int, user: str, app: str | None, gpus: int = 1, **facts: Any) -> Job:
    return leased(number, gpus, user=user, hint=Hint(app), priority=100 - number, **facts)


def behind(app: str | None) -> Sequence[Job]:
    return job(1, "alice", "rank"), job(2, "bob", app, 4)


def ahead(app: str | None) -> Sequence[Job]:
    return job(2, "bob", app), job(3, "alice", "resnet")


def many_accounts(app: str | None) -> Sequence[Job]:
    return *(job(2 + n, f"bob{n}", app) for n in range(3)), job(9, "alice", "resnet")


@pytest.mark.parametrize("app", FORGED)
@pytest.mark.parametrize("jobs", [behind, ahead, many_accounts])
def test_a_forged_tag_changes_nobody_elses_gpus(
    site: Site, jobs: Callable[[str | None], Sequence[Job]], app: str | None
) -> None:
    site.ran("alice", "resnet", "A")
    honest, forged = site.starts(*jobs("rank")), site.starts(*jobs(app))
    of_alice = {one.id for one in jobs(app) if one.user == "alice"}
    assert of_alice and {n: forged[n] for n in of_alice} == {n: honest[n] for n in of_alice} == dict.fromkeys(
        of_alice, (0,)
    )


@pytest.mark.parametrize("app", FORGED)
def test_it_counts_for_the_choice_of_the_job_itself_while_nobody_waits_who_has_shown_more(
    site: Site, app: str | None
) -> None:
    site.ran("alice", "resnet", "A")
    held = job(3, "alice", "resnet", why=Waits.HELD)  # for whom nothing is spared
    assert site.starts(job(2, "bob", app), held) == {2: (0,)}
    assert site.starts(job(1, "carol", "resnet"), job(2, "bob", app)) == {1: (0,), 2: (1,)}


@pytest.mark.parametrize(
    ("shown", "first"),
    [
        ((), False),
        ((("bob", "resnet", "A", 1, False),), True),
        ((("bob", "resnet", "C", 1, False),), False),
        ((("bob", "resnet", "B", 1, False),), False),
        ((("bob", "resnet", "A", 5, True),), False),  # in files that he wrote
        ((("bob", "resnet", "A", 5, True), ("bob", "resnet", "C", 1, False)), False),
        ((("bob", "resnet", "A", 1, False), ("bob", "resnet", "C", 5, False)), False),
        ((("bob", "vgg", "A", 5, False),), False),  # under another name
        ((("bob2", "resnet", "A", 5, False),), False),  # with another account
    ],
)
def test_what_a_user_s_own_jobs_have_shown_under_that_name_counts(
    site: Site, shown: Sequence[tuple[str, str, str, int, bool]], first: bool
) -> None:
    site.ran("alice", "resnet", "A")
    for user, app, cls, jobs, his_word in shown:
        site.ran(user, app, cls, jobs=jobs, his_word=his_word)
    assert (site.starts(*ahead("resnet"))[2] == (0,)) is first
