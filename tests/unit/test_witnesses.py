"""P12: what one user sends moves no score of others beyond a bound, however much he sends and under whatever names."""

from __future__ import annotations

import shutil
import tempfile
from math import exp, log
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pal_slurm.intake.samples import STRETCH_S
from pal_slurm.learning.base_times import APP_NOISE, UNKNOWN_BASE, usual
from pal_slurm.learning.from_jobs import learn
from pal_slurm.model import App, Apps, Tier
from pal_slurm.scores.witness import ALONE_LEAST, ALONE_MOST, FAR, UNMEASURED, Anchor, Vote, allowed
from pal_slurm.store import Delivery, GpuRepo, Measurement, ScoreRepo, Sighting, Store, open_store
from pal_slurm.store.learned import Baseline, LearnedRepo
from pal_slurm.store.nights import NightRepo, ProfiledScore
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.store.scores import Score
from pal_slurm.store.votes import UserApp, UserVote, VoteRepo

T0 = 1_790_000_400.0 - 1_790_000_400.0 % STRETCH_S
GPUS = [f"GPU-{i}" for i in range(4)]
APPS = Apps({name: App(name, "A") for name in ("net", "other", "third")})
MEASURED = Anchor(0.0, 0.004, True)


def votes(*means: float, sd: float = 0.03) -> list[Vote]:
    """The newest first."""
    return [Vote(mean, sd**2, T0 - i) for i, mean in enumerate(means)]


# The rule -----


@pytest.mark.parametrize("claim", [-3.0, 0.0, 0.5, 3.0])
@pytest.mark.parametrize(
    ("anchor", "most"),
    [
        (Anchor(), UNMEASURED),
        (Anchor(0.3, 0.004, True), ALONE_LEAST),
        (Anchor(0.0, 0.02, True), 1.96 * 0.02),
        (Anchor(0.0, 0.3, True), ALONE_MOST),
        (Anchor(0.0, None, True), ALONE_MOST),
    ],
)
def test_one_user_alone_moves_a_score_within_its_own_interval(anchor: Anchor, most: float, claim: float) -> None:
    assert allowed(anchor, votes(claim)) == pytest.approx((anchor.mean - most, anchor.mean + most))


def test_two_who_agree_are_believed_as_far_as_the_lesser_claim() -> None:
    assert allowed(MEASURED, votes(0.5, 0.4))[1] == pytest.approx(0.4)
    assert allowed(MEASURED, votes(0.1, 0.12))[1] == pytest.approx(0.1 + ALONE_LEAST)
    assert allowed(MEASURED, votes(-0.5, -0.4))[0] == pytest.approx(-0.4)


def test_two_who_contradict_each_other_say_nothing() -> None:
    assert allowed(MEASURED, votes(0.5, -0.5)) == allowed(MEASURED, [])


def test_beyond_a_quarter_the_second_witness_has_to_see_as_much() -> None:
    assert allowed(Anchor(), votes(2.0, 0.2))[1] == pytest.approx(FAR)
    assert allowed(Anchor(), votes(2.0, FAR + 0.01))[1] == pytest.approx(FAR + 0.01)
    assert allowed(Anchor(0.5, 0.01, True), [])[1] > FAR  # the nights say so themselves


def test_an_unsure_vote_is_no_witness() -> None:
    assert allowed(MEASURED, [*votes(0.5), *votes(0.4, sd=0.2)]) == allowed(MEASURED, votes(0.5))


def test_two_who_see_a_change_outvote_those_who_ran_before_it() -> None:
    assert allowed(MEASURED, votes(0.5, 0.45, 0.0, 0.0, 0.01))[1] == pytest.approx(0.45)


@given(
    st.lists(st.floats(-3, 3), max_size=6),
    st.floats(-50, 50),
    st.integers(0, 6),
    st.one_of(st.just(Anchor()), st.builds(Anchor, st.floats(-1, 1), st.floats(0.001, 0.2), st.just(True))),
)
def test_whatever_one_says_the_bounds_stay_within_what_the_others_and_the_nights_say(
    honest: list[float], claim: float, place: int, anchor: Anchor
) -> None:
    means = [*honest[:place], claim, *honest[place:]]
    low, high = allowed(anchor, votes(*means))
    assert min([anchor.mean, *honest]) - anchor.alone - 1e-9 <= low <= high
    assert high <= max([anchor.mean, *honest]) + anchor.alone + 1e-9


# Through the store -----


def sample(
    gpu: str, job: str, at: float, seconds: float, user: str, app: str = "net", gpus: tuple[str, ...] = ()
) -> JobSample:
    return JobSample(
        f"{job}-{at}", "c", job, app, "n0", gpus or (gpu,), at, at + STRETCH_S - 1, 100, seconds, user=user
    )


def filled(path: Path, nights: bool, honest: int) -> None:
    """Four equal GPUs; honest users whose jobs all take the same."""
    store = open_store(f"sqlite:///{path}", create=True)
    GpuRepo(store).see([Sighting(gpu, "n0", i, "a100") for i, gpu in enumerate(GPUS)], T0)
    ids = LearnedRepo(store).cards(GPUS)
    if nights:
        made = [
            ProfiledScore(ids[gpu].id, "A", 1.0, 0.01, 0.98, 1.02, 5, 1, 0, 0, 0, 1.0, False, T0 - 60) for gpu in GPUS
        ]
        NightRepo(store).write({}, made, (), {}, T0)
    at = T0
    for turn in range(3):
        for number in range(honest):
            for i, gpu in enumerate(GPUS):
                job = f"{turn}{number}{i}"
                SampleRepo(store).add([sample(gpu, job, at + n * STRETCH_S, 0.2, f"honest{number}") for n in range(3)])
            at += 3 * STRETCH_S
    if honest:
        learn(store, APPS, at + 2000)
    store.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, int], Path]:
    found, home = {}, tmp_path_factory.mktemp("stores")
    for nights in (True, False):
        for honest in range(4):
            found[nights, honest] = home / f"{nights}{honest}.sqlite"
            filled(found[nights, honest], nights, honest)
    return found


Forged: TypeAlias = list[tuple[int, int, float, str, set[str]]]
FORGED = st.lists(
    st.tuples(
        st.integers(1, 5),  # job
        st.integers(0, 9),  # stretch
        st.one_of(st.floats(0.1, 0.6), st.floats(1e-6, 86_400.0)),
        st.sampled_from(sorted(APPS.known)),
        st.sets(st.sampled_from(GPUS), min_size=1),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda each: each[:2],
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(nights=st.booleans(), honest=st.integers(0, 3), forged=FORGED)
def test_whatever_one_user_sends_no_score_moves_beyond_the_bound(
    prepared: dict[tuple[bool, int], Path],
    nights: bool,
    honest: int,
    forged: list[tuple[int, int, float, str, set[str]]],
) -> None:
    path = Path(tempfile.mkdtemp()) / "pal.sqlite"
    shutil.copy(prepared[nights, honest], path)
    store = open_store(f"sqlite:///{path}")
    at = T0 + 86_400
    SampleRepo(store).add(
        [
            sample("", f"9{job}", at + n * STRETCH_S, seconds, "mallory", app, tuple(sorted(gpus)))
            for job, n, seconds, app, gpus in forged
        ]
    )
    for hour in (1, 2, 3):
        learn(store, APPS, at + hour * 3600)
    bound = (ALONE_MOST if nights else UNMEASURED) + (0.03 if honest else 0.0)  # where others spoke, their own noise
    found = {s.uuid: s.score for s in ScoreRepo(store).placed()}
    assert all(abs(log(score)) <= bound + 1e-9 for score in found.values()), found
    for number in range(honest):  # and an honest user's next job is held against his own
        mine = VoteRepo(store).apps("net")[f"honest{number}"].base["a100|1|1"]
        assert exp(mine.mean) == pytest.approx(0.2, rel=0.1)
    store.close()
    shutil.rmtree(path.parent)


def flood(store: Store, user: str, seconds: float, jobs: int = 20, gpu: str = "GPU-1") -> None:
    """Many jobs that change their pace within: a GPU that became slow, if one believes it."""
    for job in range(jobs):
        at = T0 + 86_400 + job * 7 * STRETCH_S
        made = [
            sample(
                gpu, f"{user}{job}", at + n * STRETCH_S, 0.2 if n < 3 else seconds, user, sorted(APPS.known)[job % 3]
            )
            for n in range(7)
        ]
        SampleRepo(store).add(made)
        learn(store, APPS, at + 8 * STRETCH_S)


@pytest.fixture
def measured(store: Store) -> Store:
    GpuRepo(store).see([Sighting(gpu, "n0", i, "a100") for i, gpu in enumerate(GPUS)], T0)
    ids = LearnedRepo(store).cards(GPUS)
    made = [ProfiledScore(ids[gpu].id, "A", 1.0, 0.01, 0.98, 1.02, 5, 1, 0, 0, 0, 1.0, False, T0) for gpu in GPUS]
    NightRepo(store).write({}, made, (), {}, T0)
    return store


def score(store: Store, gpu: str = "GPU-1") -> tuple[float, float | None]:
    return next((s.score, s.asked) for s in ScoreRepo(store).placed() if s.uuid == gpu)


@pytest.mark.parametrize("seconds", [0.6, 0.06])
def test_many_jobs_and_names_of_one_user_are_one_user(measured: Store, seconds: float) -> None:
    flood(measured, "mallory", seconds)
    found, asked = score(measured)
    assert abs(log(found)) <= ALONE_LEAST + 1e-9
    assert asked == pytest.approx(seconds / 0.2, rel=0.1)
    assert NightRepo(measured).nodes_asked() == {"n0"}
    ids = [card.id for card in LearnedRepo(measured).cards(GPUS).values()]
    assert {vote.user for vote in VoteRepo(measured).of(ids, "A")} == {"mallory"}


def test_the_next_night_is_a_witness_and_takes_the_score_off_the_list(measured: Store) -> None:
    flood(measured, "mallory", 0.6, jobs=2)
    number = LearnedRepo(measured).cards(["GPU-1"])["GPU-1"].id
    night = T0 + 10 * 86_400
    said = ProfiledScore(number, "A", 1.4, 0.01, 1.37, 1.43, 5, 2, 0, 0, 0, 1.0, False, night)
    NightRepo(measured).write({}, [said], (), {}, night)
    assert score(measured) == (1.4, None)
    assert NightRepo(measured).nodes_asked() == set()


def test_an_imported_score_is_what_one_user_is_held_against(store: Store) -> None:
    sightings = [Sighting(gpu, "n0", i, "a100") for i, gpu in enumerate(GPUS)]
    told = [Score(gpu, "A", 1.3, 1, T0) for gpu in GPUS]
    ScoreRepo(store).add(Delivery("d", "import", sightings, [Measurement("GPU-1", "A", T0, score=1.3)], told), T0)
    flood(store, "mallory", 0.6, jobs=3)
    assert abs(log(score(store)[0] / 1.3)) <= ALONE_MOST + 1e-9


# An application's pace -----

APP = App("net", "A")


def paced(*means: float) -> list[UserApp]:
    return [UserApp("net", f"u{i}", T0, base={"m|1|1": Baseline(mean, 1e-4, 9)}) for i, mean in enumerate(means)]


def test_a_user_is_held_against_his_own_jobs_first() -> None:
    mine = UserApp("net", "me", T0, base={"m|1|1": Baseline(-1.6, 1e-4, 5)})
    assert usual(APP, "m|1|1", Tier.GPU, mine, paced(3.0, 3.0, 3.0)).mean == -1.6


def test_what_one_other_user_showed_is_nobodys_measure() -> None:
    fresh = UserApp("net", "me", T0)
    assert usual(APP, "m|1|1", Tier.GPU, fresh, paced(3.0)).var == UNKNOWN_BASE**2
    apart = usual(APP, "m|1|1", Tier.GPU, fresh, paced(-1.6, 3.0))
    assert apart.var >= UNKNOWN_BASE**2 - 1e-9
    agreed = usual(APP, "m|1|1", Tier.GPU, fresh, paced(-1.6, -1.61, 3.0))
    assert agreed.mean == -1.6
    assert agreed.var < 2 * APP_NOISE**2


def test_votes_are_one_row_per_user(store: Store) -> None:
    GpuRepo(store).see([Sighting("GPU-0", "n0", 0, "a100")], T0)
    number = LearnedRepo(store).cards(["GPU-0"])["GPU-0"].id
    repo = VoteRepo(store)
    repo.put([UserVote(number, "A", "Bob", 0.1, 0.01, T0), UserVote(number, "A", "bob", 0.2, 0.01, T0)])
    repo.put([UserVote(number, "A", "bob", 0.3, 0.01, T0)])
    assert {vote.user: vote.mean for vote in repo.of([number], "A")} == {"Bob": 0.1, "bob": 0.3}
    repo.forget()
    assert repo.of([number], "A") == []
