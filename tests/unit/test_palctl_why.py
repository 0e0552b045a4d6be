"""palctl why and jobs: what was known and weighed, in plain sentences, from the store alone."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Consent,
    Decision,
    Given,
    Hint,
    Intent,
    Knowledge,
    NotBegun,
    OperationKind,
    Outcome,
    Pin,
    Placement,
    Reason,
    ScoreTable,
    homogeneous,
    predict,
    read_hint,
)
from pal_slurm.report.jobs import job_rows
from pal_slurm.report.present import FORECAST, Present, StartNow, WaitingNow, forecast_words, to_bytes
from pal_slurm.report.why import sentences, why_of
from pal_slurm.store import DecisionRepo, JobOutcome, Ledger, OutcomeRepo, Store, Why
from tests.builders import snapshot, waiting

CLUSTER = homogeneous(4, 4, rack_size=2)
OURS = Placement(("n1",), ((2, 3),), exact=True)
SLURMS = Placement(("n1",), ((0, 1),), exact=True)
APP = App("resnet", "A", {"gpu": 0.2}, (1.0, 1.1, 1.2, 1.3))


def knowledge() -> Knowledge:
    score = np.ones((1, 4, 4))
    score[0, 0] = [1.5, 1.0, 0.9, 1.0]
    known = np.ones((1, 4, 4), dtype=np.bool_)
    return Knowledge(ScoreTable(("A",), score, np.zeros((1, 4, 4), dtype=np.int16), known), Apps({"resnet": APP}))


def why(action: Action = Action.START, reason: Reason = Reason.BEST_SPAN, app: str | None = "resnet") -> Why:
    job = waiting(7, 2, submit=100, partitions=("gpu",), hint=Hint(app))
    known = knowledge()
    ours = predict(APP, OURS, CLUSTER, known.scores)
    slurms = predict(APP, SLURMS, CLUSTER, known.scores)
    decision = Decision(7, None, action, reason, rank=3)
    if action is Action.START:
        decision = Decision(7, None, action, reason, OURS, ours, slurms, 3, SLURMS)
    return why_of(decision, job, snapshot(job, cluster=CLUSTER, now=200.0), known, "pin")


def test_why_tells_slots_factors_and_what_slurms_own_choice_would_have_cost() -> None:
    told = list(sentences(why()))
    assert told == [
        "Job 7 asks for 2 GPUs and runs resnet, class A.",
        "It is placed on n1:g2,g3 (exactly these devices).",
        "Of everything that it may be given and that was free, this has the least step time.",
        "Chosen: n1:g2,g3, span node: 0.2 s/step x 1.000 (slowest GPU) x 1.100 (span) = 0.22 s/step.",
        "Slurm's own choice: n1:g0,g1, span node: 0.2 s/step x 1.500 (slowest GPU) x 1.100 (span) = 0.33 s/step.",
        "Slurm's own choice would have cost 0.33 s/step, 50.0% more than 0.22 s/step.",
    ]


@pytest.mark.parametrize(
    ("comment", "share"),
    [
        ("app:resnet pal:share", True), ("pal:share", True), ("pal:shared", False), ("pal:share=2", False),
        ("PAL:SHARE", False), ("pal:same pal:dearer", False), ("x\x07 pal:share", False), ("", False),
    ],
)  # fmt: skip
def test_why_tells_that_it_says_pal_share_and_that_nothing_follows(
    comment: str, share: bool, store: Store, site: Path
) -> None:
    hint = read_hint(comment)
    assert (hint.share, hint.same, hint.dearer) == (share, "pal:same" in comment, "pal:dearer" in comment)
    job = waiting(7, 2, submit=100, partitions=("gpu",), hint=hint)
    told = why_of(
        Decision(7, None, Action.WAIT, Reason.NO_ROOM), job, snapshot(job, cluster=CLUSTER), knowledge(), "pin"
    )
    decided = DecisionRepo(store, "c")
    decided.record([told])
    (kept,) = decided.of_job(7)
    assert any("It says pal:share" in sentence for sentence in sentences(kept)) == share


@pytest.mark.parametrize(
    ("comment", "told"),
    [
        ("app:my/net x", "Its comment says app:my/net: a name is a letter or digit, then up to 63"),
        ("app: resnet", "Its comment says app:: a name"), ("app:résumé", "Its comment says app:résumé: a name"),
        ("app:bert pal:mvoe", "Its comment says pal:mvoe, which means nothing here."),
        ("pal:by=tomorrow pal:off", "Its comment says pal:by=tomorrow, which means nothing here."),
        ("app:" + "x" * 200, f"Its comment says app:{'x' * 76}: a name"),
        ("x\x07 app:bert", "Nothing in its comment counts"), ("x" * 9000, "Nothing in its comment counts"),
        ("app:bert pal:off pal:same pal:dearer pal:share pal:move=60 pal:by=2026-11-19T18:00", ""),
        ("pal:stay.", ""), ("pal:move", ""), ("palindrome apply PAL:OFF other:words", ""), ("", ""),
    ],
)  # fmt: skip
def test_why_tells_of_a_word_that_does_not_count(comment: str, told: str) -> None:
    job = waiting(7, 2, hint=read_hint(comment))
    decided = Decision(7, None, Action.WAIT, Reason.NO_ROOM)
    said = sentences(why_of(decided, job, snapshot(job, cluster=CLUSTER), knowledge(), "pin"))
    found = [sentence for sentence in said if "comment" in sentence and "moved while" not in sentence]
    assert [sentence[: len(told)] for sentence in found] == ([told] if told else [])


def test_why_and_jobs_tell_whether_it_may_be_moved() -> None:
    for given in Given:
        told = list(sentences(replace(why(), consent=Consent(given))))
        assert ("moved while it runs" in told[-1]) == (given is not Given.NOT)
        assert job_rows([replace(why(), consent=Consent(given))], [], 1)[0]["moves"] == given.value
    all_told = replace(why(), consent=Consent(Given.ASKED, 120, "USR1", to_script=True, ahead_s=60))
    assert list(sentences(all_told))[-1] == (
        "It may be moved while it runs, for its comment says pal:move; a restart costs it 120 s; SIGUSR1 goes to its "
        "batch script first; after 60 s it is left running unless it requeues itself."
    )


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("action", list(Action))
def test_every_action_and_reason_has_its_sentences(action: Action, reason: Reason) -> None:
    told = list(sentences(why(action, reason)))
    assert len(told) >= 3
    assert all(sentence.endswith(".") for sentence in told)


def test_a_waiting_job_is_told_how_many_are_before_it() -> None:
    told = list(sentences(why(Action.WAIT, Reason.NO_ROOM)))
    assert "16 GPUs were free in its partitions when the plan began; 3 jobs came before it." in told


def test_unknown_apps_are_said_to_be_unknown() -> None:
    assert "names no application" in next(sentences(why(app=None)))
    assert "nobody has described" in next(sentences(why(app="gpt9")))


@pytest.fixture
def site(store: Store, store_url: str, tmp_path: Path) -> Path:
    """A database in which pald placed job 7, and job 7 ran."""
    DecisionRepo(store, "cluster1").record([why()])
    ledger = Ledger(store, "cluster1")
    pin = Pin(7, nodes=("n1",), slots=(2, 3))
    [written] = ledger.write([Intent(0, 100, pin, 1, 201.0, decision=why().decision)])
    ledger.outcome([(written, Outcome.DONE, "odd \x1b[31m words")], 202.0)
    got = JobOutcome(
        7, 100, 203, "A", ("n1",), ((2, 3),), app="resnet", as_pinned=True, step_time=0.22, slurm_step_time=0.33
    )
    OutcomeRepo(store, "cluster1").record([got, replace(got, job=8, submit=150, as_pinned=None)])
    config = tmp_path / "pal.yaml"
    config.write_text(f"state_dir: {tmp_path}\ndatabase: {{url: '{store_url}'}}\n")
    return config


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(palctl, ["--config", str(config), *words])


def test_palctl_why_tells_decision_edit_and_outcome(site: Path) -> None:
    told = run(site, "why", "7").output
    assert "It is placed on n1:g2,g3" in told
    assert "pinned to n1:g2,g3: done" in told
    assert "It got n1:g2,g3, as pinned" in told
    assert "\x1b" not in told
    assert "\\x1b[31m" in told


def test_palctl_why_tells_what_was_not_begun_and_why(store: Store, site: Path) -> None:
    said = "job 7: moving running jobs is not built yet"
    Ledger(store, "cluster1").refuse([NotBegun(7, 100, OperationKind.MOVE, said, 300.0)])
    assert f"move: not begun ({said})" in run(site, "why", "7").output
    assert json.loads(run(site, "why", "7", "--json").output)["refused"][0]["kind"] == "move"


def test_palctl_why_as_json_holds_the_records(site: Path) -> None:
    told = json.loads(run(site, "why", "7", "--json").output)
    assert told["decisions"][0]["decision"]["placement"]["gpus"] == [[2, 3]]
    assert told["edits"][0]["outcome"] == "done"
    assert told["outcomes"][0]["nodes"] == ["n1"]


def test_an_older_job_of_the_same_id_is_not_mixed_in(store: Store, site: Path) -> None:
    OutcomeRepo(store, "cluster1").record([JobOutcome(7, 900, 903, "B", ("n4",), ((0,),))])
    told = run(site, "why", "7").output
    assert "n4:g0" in told
    assert "n1:g2" not in told


def test_a_job_that_passed_without_us_is_told_what_it_got(store: Store, site: Path) -> None:
    OutcomeRepo(store, "cluster1").record([JobOutcome(21, 100, 100, "A", ("n4",), ((0,),))])
    told = run(site, "why", "21").output
    assert "nothing better than Slurm's own choice could come" in told
    assert "It got n4:g0" in told


def test_a_job_may_be_named_as_squeue_writes_it(site: Path) -> None:
    told = run(site, "why", "7").output
    assert told and [run(site, "why", job).output for job in ("7_[3-9%2]", "6+1", "7+0")] == [told] * 3


@pytest.mark.parametrize("job", ["9", "x", "7_[", "7+", "+1", "7+x", "7_", "-1", "7_3", "99999999999"])
def test_a_job_that_nobody_knows_is_said_to_be_unknown(site: Path, job: str) -> None:
    result = run(site, "why", "--", job)
    assert isinstance(result.exception, BadInput)


def test_palctl_jobs_shows_what_each_got_newest_first(site: Path) -> None:
    rows = json.loads(run(site, "jobs", "--json").output)
    assert [(r["job"], r["action"], r["where"]) for r in rows] == [(8, "runs", "n1:g2,g3"), (7, "runs", "n1:g2,g3")]
    assert rows[1]["gain"] == pytest.approx(0.5)
    assert rows[1]["reason"] == "best-span"
    assert run(site, "jobs").output.splitlines()[0].split() == ["JOB", "USER", "NAME", "STATE", "GPUS", "WHERE"]
    assert len(run(site, "jobs", "-n", "1").output.splitlines()) == 2
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(rows[1]["start"]))
    assert run(site, "jobs", "-o", "job,start").output.splitlines()[2].split(maxsplit=1) == ["7", began]


def test_palctl_jobs_fits_a_terminal_and_tells_whose_each_is(store: Store, site: Path) -> None:
    long = replace(why(), user="user-with-a-long-name" * 3, name="\x1b[31m" + "x" * 200, decision=Decision(
        2**31, 123_456, Action.START, Reason.BEST_SPAN, Placement(tuple(f"rack{n}-gpu-node{n}" for n in range(64)),
        tuple((0, n % 4) for n in range(64)), exact=True)))  # fmt: skip
    DecisionRepo(store, "cluster1").record([long])
    output = run(site, "jobs").output
    assert max(map(len, output.splitlines())) <= 80 and "\x1b" not in output
    assert all(word in output for word in ("2147483648_123456", "user-with-a+", "pending", "rack"))
    row = next(r for r in json.loads(run(site, "jobs", "--json").output) if r["job"] == 2**31)
    assert (row["user"], row["state"], len(row["name"])) == (long.user, "pending", 205)


def test_palctl_jobs_is_asked_for_some_of_them(store: Store, site: Path) -> None:
    now = int(time.time())
    got = JobOutcome(30, now - 900, now - 800, "A", ("n1",), ((0,),), app="bert", user="ann", end=now - 700)
    runs = replace(got, job=31, app="resnet", end=None)
    old = replace(got, job=32, submit=now - 900_000, start=now - 900_000, end=now - 890_000, user="bob")
    OutcomeRepo(store, "cluster1").record([got, runs, old])
    waits = replace(why(Action.WAIT, Reason.NO_ROOM), submit=now - 600, user="bob", name="mine")
    DecisionRepo(store, "cluster1").record([replace(waits, decision=replace(waits.decision, job=33))])

    def asked(*words: str) -> set[int]:
        return {row["job"] for row in json.loads(run(site, "jobs", *words, "--json").output)} & {30, 31, 32, 33}

    assert asked() == {30, 31, 32, 33}
    assert asked("--user", "ann") == {30, 31} and asked("--user", "bob", "--since", "7d") == {33}
    assert asked("--app", "bert") == {30, 32} and asked("--app", "bert", "--state", "ended", "--since", "1d") == {30}
    assert asked("--state", "running") == {31} and asked("--state", "pending") == {33}
    assert asked("--since", "2026-01-01T00:00") == {30, 31, 32, 33}
    assert "none of the jobs that are known" in run(site, "jobs", "--user", "nobody").output
    # what pald saw a moment ago tells who left the queue without a start
    page = f"page: {{view_file: {site.parent}/now.json}}\n"
    waits_now = WaitingNow(33, None, 0, "bob", "", "A", 2, ("gpu",), now - 600, "wait", "no-room", "", None, None)
    seen = Present(
        cluster="cluster1", taken=now, actuator="pin", policy="pal", ended=now + 1.0, waiting=(waits_now,),
        forecasts={33: StartNow(now + 600.0, now + 60.0, now + 1200.0)}, forecast_at=now - 5.0,
    )  # fmt: skip
    (site.parent / "now.json").write_bytes(to_bytes(seen))
    before = site.read_text()
    site.write_text(before + page)
    # when it will probably start
    about = forecast_words(seen.forecasts[33], now)
    table = run(site, "jobs", "--state", "pending").output.splitlines()
    assert table[0].split()[-1] == "EXPECTED_START" and table[1].endswith(about) and about.startswith("about ")
    assert any(f"Expected start {about}, as of " in line for line in run(site, "why", "33").output.splitlines())
    told = json.loads(run(site, "why", "33", "--json").output)
    row = next(row for row in json.loads(run(site, "jobs", "--json").output) if row["job"] == 33)
    for record in (told, row):
        assert [record[name] for name in FORECAST] == [now + 600, now + 60, now + 1200, now - 5]
    site.write_text(before)
    seen = msgspec.structs.replace(seen, waiting=(), forecasts={})
    (site.parent / "now.json").write_bytes(to_bytes(seen))
    with site.open("a") as config:
        config.write(f"page: {{view_file: {site.parent}/now.json}}\n")
    assert asked("--state", "gone") == {33} and asked("--state", "pending") == set()
    # one that Slurm requeued has a new submit time: only as it is now does it wait
    again = replace(waits, submit=now - 60, decision=replace(waits.decision, job=33))
    site.write_text(site.read_text().replace("now.json", "away.json"))
    DecisionRepo(store, "cluster1").record([again])
    rows = json.loads(run(site, "jobs", "--user", "bob", "--since", "7d", "--json").output)
    assert [(row["job"], row["state"]) for row in rows] == [(33, "pending"), (33, "gone")]


def test_with_several_clusters_one_must_be_named(store: Store, site: Path) -> None:
    DecisionRepo(store, "cluster2").record([why()])
    assert "cluster1, cluster2" in str(run(site, "jobs").exception)
    assert run(site, "--cluster", "cluster2", "jobs").exit_code == 0
    assert "known: cluster1" in str(run(site, "--cluster", "cluster3", "jobs").exception)


def test_palctl_gained_adds_up_what_pins_gained_by_class(store: Store, site: Path) -> None:
    now = int(time.time())
    outcomes = OutcomeRepo(store, "cluster1")
    ran = JobOutcome(20, 1, now - 7200, "A", ("n1",), ((0, 1),), end=now - 3600, step_time=0.2, slurm_step_time=0.3)
    same = replace(ran, job=21, cls="B", gpus=((0,),), slurm_step_time=0.2)
    outcomes.record([ran, same, replace(ran, job=22, slurm_step_time=None)])
    rows = json.loads(run(site, "gained", "--since", "1d", "--json").output)
    assert [(r["class"], r["jobs"], r["better"], r["same"]) for r in rows] == [
        ("A", 1, 1, 0),
        ("B", 1, 0, 1),
        ("all", 2, 1, 1),
    ]
    assert (rows[0]["gpu_hours"], rows[0]["gpu_hours_saved"]) == (2.0, pytest.approx(1.0))
    assert rows[2]["median_gain"] == pytest.approx(0.25)


def test_palctl_gained_in_shadow_mode_compares_what_jobs_got_with_what_pald_would_have_chosen(
    store: Store, site: Path
) -> None:
    now = int(time.time())
    shadow = replace(why(), actuator="shadow", submit=now, decided_at=float(now))
    DecisionRepo(store, "cluster1").record([shadow])
    got = JobOutcome(7, now, now - 3600, "A", ("n1",), ((0, 1),), end=now, step_time=0.33)
    OutcomeRepo(store, "cluster1").record([got])
    [row] = json.loads(run(site, "gained", "--since", "1d", "--json").output)
    assert row["mean_gain"] == pytest.approx(0.5)
    assert row["gpu_hours_saved"] == pytest.approx(2.0 / 3.0)


def test_palctl_gained_says_when_nothing_is_known(site: Path) -> None:
    assert "no job of which both" in run(site, "gained", "--since", "1d").output
