"""What jobs on one GPU show of each other: who was there is what pald saw; whose word counts; what reaches no score."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from pal_slurm.cli.answers import ANSWERS
from pal_slurm.cli.palctl import palctl
from pal_slurm.config import Config
from pal_slurm.config.apps import AppEntry
from pal_slurm.intake.samples import STRETCH_S
from pal_slurm.intake.spool import FileFate
from pal_slurm.learning.from_jobs import learn
from pal_slurm.learning.pairs import SURE, PairsSeen, Told, estimated, said_by
from pal_slurm.learning.rate_evidence import evidence_of
from pal_slurm.learning.run import ingest, recompute
from pal_slurm.model import App, Apps, JobKind, Sharers, homogeneous
from pal_slurm.model.sharing import BothUsers
from pal_slurm.store import (
    GpuRepo,
    JobOutcome,
    OutcomeRepo,
    PairRepo,
    ScoreRepo,
    Sighting,
    Store,
    UserPair,
    VoteRepo,
)
from pal_slurm.store.samples import JobSample, SampleRepo
from tests.unit.spools import NIGHT, fleet, here, put_night
from tests.unit.test_intake_samples import START, write

T0 = 1_790_000_400.0 - 1_790_000_400.0 % STRETCH_S
APPS = Apps({name: App(name, "A") for name in ("net", "bert", "rank")})
TRUE = {("net", "bert"): 1.5, ("bert", "net"): 1.2}


@dataclass
class Site:
    """One node of cards that are alike, whose jobs tell how long their steps took."""

    store: Store
    rng: random.Random = field(default_factory=lambda: random.Random(11))
    number: int = 0

    def __post_init__(self) -> None:
        GpuRepo(self.store).see([Sighting(f"GPU-{i}", "n0", i, "A100-SXM4") for i in range(8)], T0)

    def job(self, app: str, gpu: int, first: int, last: int, user: str = "eva", *, share: bool = True) -> int:
        """It runs in these stretches of ten minutes. Its samples come by `tell`."""
        self.number += 1
        begun = int(T0 + first * STRETCH_S)
        end = int(T0 + last * STRETCH_S)
        got = JobOutcome(self.number, 1, begun, "A", ("n0",), ((gpu,),), end=end, app=app, user=user, shared=share)
        OutcomeRepo(self.store, "c").record([got])
        return self.number

    def tell(self) -> None:
        """All jobs' step times: slower beside those whom pald saw there."""
        jobs = OutcomeRepo(self.store, "c").since(0.0)
        for one in jobs:
            samples = []
            for begun in range(one.start, one.end or one.start, int(STRETCH_S)):
                beside = [
                    o for o in jobs if o.gpus == one.gpus and o.job != one.job and o.start <= begun < (o.end or 0)
                ]
                slow = math.prod([TRUE.get((one.app or "", o.app or ""), 2.0) for o in beside])
                samples.append(self.sample(one, begun, 0.2 * slow * exp(self.rng.gauss(0, 0.005))))
            SampleRepo(self.store).add(samples)

    def sample(self, one: JobOutcome, begun: float, seconds: float) -> JobSample:
        name, card = f"{one.job}-{begun}", f"GPU-{one.gpus[0][0]}"
        end = begun + STRETCH_S - 1
        return JobSample(name, "c", str(one.job), one.app, "n0", (card,), begun, end, 100, seconds, user=one.user)

    def learn(self, at: int = 100) -> None:
        learn(self.store, APPS, T0 + at * STRETCH_S)

    def pairs(self) -> dict[tuple[str, str, str], UserPair]:
        return {(row.user, row.app, row.beside): row for row in PairRepo(self.store).every()}


@pytest.fixture
def site(sqlite_store: Store) -> Site:
    return Site(sqlite_store)


def test_what_two_on_one_gpu_cost_each_other_is_learned_from_their_own_pace_alone(store: Store) -> None:
    site = Site(store)
    site.job("net", 0, 0, 10)
    site.job("bert", 0, 4, 14)
    site.tell()
    site.learn()
    found = site.pairs()
    assert set(found) == {("eva", "net", "bert"), ("eva", "bert", "net")}
    for (_, app, other), row in found.items():
        assert exp(row.mean) == pytest.approx(TRUE[app, other], rel=0.03)
        assert (row.seen, row.model, row.gpus) == (6, "A100-SXM4", 1)


@pytest.mark.parametrize("seen_there", [True, False], ids=["seen by pald", "unseen"])
def test_no_score_and_no_base_time_is_learned_from_a_gpu_that_two_had(site: Site, seen_there: bool) -> None:
    for n in range(12):
        site.job("net", 4 + n % 4, 10 * n, 10 * n + 10, share=False)
    for n in range(12, 20):
        for user in ("eva", "tom"):  # a second user is a witness
            site.job("net", 0 if user == "eva" else 1, 10 * n, 10 * n + 10, user, share=seen_there)
            site.job("bert", 0 if user == "eva" else 1, 10 * n, 10 * n + 10, user, share=seen_there)
    site.tell()
    for at in range(10, 210, 10):
        site.learn(at)
    base = VoteRepo(site.store).apps("net")["eva"].base["A100-SXM4|1|1"]
    scores = {s.uuid: s.score for s in ScoreRepo(site.store).placed()}
    off = max(abs(exp(base.mean) / 0.2 - 1), abs(scores.get("GPU-0", 1.0) - 1))
    assert (off < 0.03) == seen_there, (exp(base.mean), scores)


def test_a_guest_that_never_was_alone_is_held_against_what_is_usual_for_it(site: Site) -> None:
    for first in range(0, 40, 10):
        site.job("bert", 2 + first // 10, first, first + 10)
    site.job("net", 0, 40, 60)
    site.job("bert", 0, 45, 55)
    site.tell()
    site.learn()
    assert exp(site.pairs()["eva", "bert", "net"].mean) == pytest.approx(1.2, rel=0.08)


def test_of_a_guest_of_which_nothing_is_usual_nothing_is_said(site: Site) -> None:
    site.job("net", 0, 0, 20)
    site.job("bert", 0, 5, 15)
    site.tell()
    site.learn()
    assert set(site.pairs()) == {("eva", "net", "bert")}


def test_a_stretch_in_which_somebody_came_or_went_and_one_with_three_say_nothing(site: Site) -> None:
    site.job("net", 0, 0, 20)
    other = site.job("bert", 0, 5, 15)
    third = site.job("bert", 0, 8, 12, "tom")
    outcomes = OutcomeRepo(site.store, "c")
    site.tell()
    [was] = outcomes.of_job(other)
    outcomes.record([replace(was, end=int(T0 + 14.5 * STRETCH_S))])
    site.learn()
    row = site.pairs()["eva", "net", "bert"]
    assert third and row.seen == 3 + 2  # 5 to 8, 12 to 14
    assert exp(row.mean) == pytest.approx(1.5, rel=0.03)


def test_nobody_s_claim_makes_company_only_pald_s_record_does(site: Site) -> None:
    """Another user's samples name the same card at the same time; pald has not seen him there."""
    job = site.job("net", 0, 0, 10)
    site.tell()
    [mine] = OutcomeRepo(site.store, "c").of_job(job)
    claimed = replace(mine, job=999, app="bert", user="mallory")
    SampleRepo(site.store).add([site.sample(claimed, T0 + i * STRETCH_S, 9.0) for i in range(10)])
    site.learn()
    assert site.pairs() == {}
    assert "A100-SXM4|1|1" in VoteRepo(site.store).apps("net")["eva"].base  # it counts as alone, as it was


def test_run_times_of_jobs_that_shared_say_nothing_of_gpu_models(site: Site) -> None:
    cluster = homogeneous(1, 8)
    for gpu in range(6):
        site.job("net", gpu, 0, 5)
    runs = OutcomeRepo(site.store, "c").ran(0.0, 60.0, 100)
    assert runs == []
    assert evidence_of(site.store, cluster, "c", T0 + 1e5).jobs == {}


def test_a_number_that_is_no_job_s_stops_nobody_s_learning(site: Site) -> None:
    site.job("net", 0, 0, 10)
    site.tell()
    for number, odd in enumerate(("9" * 24, "7_3", "²", "", "-1")):
        SampleRepo(site.store).add(
            [JobSample(f"odd{number}", "c", odd, "net", "n0", ("GPU-3",), T0, T0 + 599, 9, 0.2, user="eva")]
        )
    site.learn()
    assert "A100-SXM4|1|1" in VoteRepo(site.store).apps("net")["eva"].base


def test_what_nodes_send_of_two_on_one_gpu_becomes_what_the_pair_costs(sqlite_store: Store, tmp_path: Path) -> None:
    """A node's probe names no GPU of a job while others compute on it too: pald saw where it was."""
    spool = tmp_path / "spool"
    spool.mkdir()
    put_night(spool, fleet(1), NIGHT)
    apps = {name: AppEntry(cls="A") for name in ("net", "bert")}
    config = Config(apps=apps, state_dir=here(tmp_path / "spool").state_dir)
    ingest(sqlite_store, config, spool, NIGHT + 10_000)
    begun, met = START - START % STRETCH_S, START - START % STRETCH_S + 4 * STRETCH_S
    alone = JobOutcome(7, 1, int(begun), "A", ("n1",), ((0,),), app="net", user="eva", shared=True)
    guest = replace(alone, job=8, start=int(met), app="bert")
    OutcomeRepo(sqlite_store, "c").record(
        [alone, guest, replace(alone, job=9, start=int(begun), gpus=((1,),), app="bert")]
    )
    for number, job, slots, at, step, name in (
        (0, "7", [0], begun, 0.2, "net"), (1, "7", [], met, 0.3, "net"), (0, "8", [], met, 0.24, "bert"),
        (0, "9", [1], begun, 0.2, "bert"),
    ):  # fmt: skip
        write(spool, job, "n1", slots, at, step, minutes=40, app=name, part=number)
    done = ingest(sqlite_store, config, spool, met + 5 * STRETCH_S, "c")
    assert {told.fate for told in done.files} == {FileFate.TAKEN}, done.files
    learn(sqlite_store, config.known_apps(), met + 9 * STRETCH_S)
    found = {(row.app, row.beside): exp(row.mean) for row in PairRepo(sqlite_store).every()}
    assert found == {("net", "bert"): pytest.approx(1.5, rel=0.03), ("bert", "net"): pytest.approx(1.2, rel=0.08)}


def test_what_is_heard_again_is_heard_once(site: Site) -> None:
    site.job("net", 0, 0, 10)
    site.job("bert", 0, 4, 14)
    site.tell()
    site.learn()
    before = site.pairs()
    site.learn()
    assert site.pairs() == before
    config = Config()
    recompute(site.store, config, T0 + 200 * STRETCH_S)
    assert site.pairs().keys() <= before.keys()


# Whose word counts -----

ONE, OTHER = JobKind("net", 1), JobKind("bert", 1)
PAIR = Sharers(ONE, OTHER, "gpu")
BACK = Sharers(OTHER, ONE, "gpu")


def row(user: str, factor: float, app: str = "net", beside: str = "bert", model: str = "card") -> UserPair:
    return UserPair(app, beside, model, 1, user, log(factor), 0.02**2, 5, T0)


def seen(*rows: UserPair, told: Told | None = None, guessed: bool = False) -> PairsSeen:
    said = said_by(rows, {"card": "gpu"})
    return PairsSeen(told or {}, said, estimated(told or {}, said, ("gpu",)) if guessed else {})


def both(user: str, factor: float) -> list[UserPair]:
    return [row(user, factor), row(user, factor, "bert", "net")]


def test_a_pair_that_is_to_be_measured_is_tried_until_the_user_s_own_jobs_or_several_others_have_shown_it() -> None:
    ask: dict[Sharers, float | None] = {PAIR: None, BACK: None}
    nobody = seen(told=ask).of("a")
    assert nobody.sure(ONE, OTHER, "gpu") and nobody.unmeasured(ONE, OTHER, "gpu")
    assert {trust.source for trust in nobody.known.values()} == {"measure"}
    one_way = seen(row("a", 1.9), told=ask).of("a")
    assert one_way.known[PAIR].source == "own" and one_way.unmeasured(OTHER, ONE, "gpu")
    good = seen(*both("a", 1.2), told=ask)
    assert not good.of("a").unmeasured(ONE, OTHER, "gpu") and good.of("b").unmeasured(ONE, OTHER, "gpu")
    agreed = seen(*both("a", 1.3), *both("b", 1.32), *both("c", 1.28), told=ask)
    assert {trust.source for trust in agreed.of("zoe").known.values()} == {"users"}
    assert not agreed.of("zoe").unmeasured(ONE, OTHER, "gpu")
    both_users = BothUsers(good.of("a"), good.of("b"))
    assert both_users.unmeasured(ONE, OTHER, "gpu") and both_users.sure(ONE, OTHER, "gpu")
    doubtful = [replace(one, var=0.4**2) for one in both("a", 1.2)]
    assert seen(*doubtful, told=ask).of("a").unmeasured(ONE, OTHER, "gpu")
    assert not seen(*doubtful).of("a").sure(ONE, OTHER, "gpu")
    assert estimated(ask, {}, ("gpu",)) == {}  # nothing is told that others could be estimated from


def test_one_user_s_lies_move_nobody_else_s_pairs() -> None:
    honest = [*both("a", 1.3), *both("b", 1.32), *both("c", 1.28)]
    liars = [row("mallory", factor) for factor in (1.0,)] + [row("mallory", 90.0, "bert", "net")]
    for user in ("a", "b", "c"):
        assert seen(*honest).of(user).known == seen(*honest, *liars).of(user).known
    for stranger in ("zoe", ""):
        before, after = (seen(*honest, *more).of(stranger).factor(ONE, OTHER, "gpu") for more in ([], liars))
        assert before == pytest.approx(1.3, rel=0.2) and after == pytest.approx(before, rel=0.05)
        assert not seen(*liars, *both("a", 1.3)).of(stranger).known
    assert seen(*honest, *liars).of("mallory").factor(OTHER, ONE, "gpu") > 50  # what he says is his own


def test_many_rows_under_many_cards_are_one_vote() -> None:
    rows = [row("mallory", 1.0, model=f"card{i}") for i in range(9)]
    assert seen(*rows).of("zoe").known == {}


def test_what_is_told_stands_and_what_nobody_knows_is_no_pair() -> None:
    known = seen(*both("a", 3.0), told={PAIR: 1.2, BACK: 1.1}).of("a")
    assert (known.factor(ONE, OTHER, "gpu"), known.factor(OTHER, ONE, "gpu")) == (1.2, 1.1)
    assert known.sure(ONE, OTHER, "gpu")
    assert known.factor(ONE, OTHER, "v100") == math.inf and not known.sure(ONE, OTHER, "v100")
    assert list(known.partners(ONE, "gpu")) == [OTHER] and not known.partners(ONE, "v100")


def test_one_direction_is_not_sure_nor_is_what_differs_much() -> None:
    assert not seen(row("a", 1.2)).of("a").sure(ONE, OTHER, "gpu")
    assert seen(*both("a", 1.2)).of("a").sure(ONE, OTHER, "gpu")
    apart = [*both("a", 1.0), *both("b", 2.0), *both("c", 4.0)]
    known = seen(*apart).of("zoe")
    assert known.known[PAIR].doubt > SURE and not known.sure(ONE, OTHER, "gpu")


def test_a_doubt_makes_a_pair_slower_never_faster() -> None:
    known = seen(row("a", 0.7), row("a", 0.9, "bert", "net")).of("a")
    assert known.known[PAIR].factor == 1.0 < known.factor(ONE, OTHER, "gpu")


def test_estimates_are_made_of_what_all_know_and_are_sure_only_of_who_fits_everywhere() -> None:
    rng = random.Random(3)
    kinds = [JobKind(f"k{i}", 1) for i in range(8)]
    load = {kind: rng.uniform(0.1, 0.7) for kind in kinds}
    told = {Sharers(a, b, "gpu"): 1.0 + load[b] for a in kinds for b in kinds}
    left = [Sharers(kinds[0], kinds[1], "gpu"), Sharers(kinds[1], kinds[0], "gpu")]
    full = seen(told=told)
    for pair in left:
        del told[pair]
    assert not seen(told=told).of("a").sure(*left[0])
    known = seen(told=told, guessed=True).of("a")
    assert known.known[left[0]].source == "likely" and known.sure(*left[0])
    assert known.known[left[0]].factor == pytest.approx(full.of("a").factor(*left[0]), rel=0.2)
    told[Sharers(kinds[0], kinds[2], "gpu")] = told[Sharers(kinds[2], kinds[0], "gpu")] = math.inf
    assert not seen(told=told, guessed=True).of("a").sure(*left[0])
    mine = [UserPair("k0", "k1", "gpu", 1, "mallory", 0.0, 1e-4, 9, T0)]
    assert Sharers(kinds[0], kinds[1], "gpu") in seen(*mine, told=told, guessed=True).of("zoe").known
    assert seen(*mine, told=told, guessed=True).of("zoe").known == seen(told=told, guessed=True).of("zoe").known


# palctl apps --pairs -----

YAML = """\
cluster: {bin_dir: /nowhere, backend: cli}
sharing:
  pairs:
  - {app: net, beside: net, factor: 1.5, back: 1.5}
  - {app: net, beside: vgg, fits: false}
"""


def shown(home: Path, *words: str) -> dict[tuple[str, str], dict[str, object]]:
    (home / "pal.yaml").write_text(f"state_dir: {home}\n{YAML}")
    said = CliRunner().invoke(palctl, ["--config", f"{home}/pal.yaml", "apps", "--pairs", "--json", *words])
    assert said.exit_code == 0, said.output
    msgspec.json.decode(said.stdout, type=ANSWERS["apps"])
    return {(row["app"], row["beside"]): row for row in json.loads(said.stdout)}


def test_palctl_shows_factors_with_their_doubt_and_who_says_so(sqlite_store: Store, tmp_path: Path) -> None:
    GpuRepo(sqlite_store).see([Sighting("GPU-0", "n0", 0, "card")], T0)
    PairRepo(sqlite_store).put([*both("ann", 1.4), *both("b", 1.3), *both("c", 1.2), row("ann", 1.1, "net", "net")])
    ours = shown(tmp_path)
    assert (ours["net", "net"]["factor"], ours["net", "net"]["doubt"], ours["net", "net"]["source"]) == (
        1.5,
        0.0,
        "told",
    )
    assert ours["vgg", "net"]["factor"] is None
    assert (ours["net", "bert"]["factor"], ours["net", "bert"]["source"]) == (1.3, "users")
    hers = shown(tmp_path, "--user", "ann")
    assert (hers["net", "bert"]["factor"], hers["net", "bert"]["source"]) == (1.4, "own")
    assert hers["net", "net"]["source"] == "told"  # what is told stands
    assert 0 < float(str(hers["net", "bert"]["doubt"])) < SURE


def test_with_nothing_known_palctl_says_where_to_tell_it(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\ncluster: {{bin_dir: /nowhere, backend: cli}}\n")
    said = CliRunner().invoke(palctl, ["--config", f"{tmp_path}/pal.yaml", "apps", "--pairs"])
    assert said.exit_code == 0 and "sharing.pairs" in said.output
