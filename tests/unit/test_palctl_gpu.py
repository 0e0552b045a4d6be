"""palctl gpu: one card is one history, wherever it sat; who is meant is found or asked back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.store import JobOutcome, OutcomeRepo, Sighting, Store, open_store
from pal_slurm.store.gpus import GpuRepo
from pal_slurm.store.learned import LearnedRepo
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from tests.unit.spools import DAY, card, document, fleet, put

Palctl = Callable[..., Result]
MOVED = card("n3", 1)
NIGHTS, MOVED_AGO = 12, 4  # it moved after the night that lies so many nights back


@pytest.fixture
def run(tmp_path: Path) -> Palctl:
    (tmp_path / "spool").mkdir()
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\nprofile: {{spool: {tmp_path}/spool}}\nclasses: {{names: [A, B]}}\n")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(path), *words])

    assert invoke("db", "upgrade").exit_code == 0
    return invoke


@pytest.fixture
def store(run: Palctl, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    yield opened
    opened.close()


def tonight() -> float:
    return time.time() // DAY * DAY - DAY + 7_200


@pytest.fixture
def moved(run: Palctl, tmp_path: Path) -> Palctl:
    """Twelve nights of n3 and n7; the slow card of n3:1 was taken to n7:0, and got a new driver, four nights ago."""
    truth = fleet(8)
    for ago in reversed(range(NIGHTS)):
        there = ago < MOVED_AGO
        for node in ("n3", "n7"):
            cards = {("n7", 0): MOVED, ("n3", 1): "GPU-new-card"} if there else {}
            slow = {("n7", 0) if there else ("n3", 1): 1.5}
            made = document(
                node, {**truth, **slow}, tonight() - ago * DAY, cards=cards, seed=ago,
                driver="560.1" if there else "550.54",
            )  # fmt: skip
            put(tmp_path / "spool", made)
        assert run("ingest").exit_code == 0
    return run


def told(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(done: Result) -> str:
    assert isinstance(done.exception, BadInput), done.output
    said = str(done.exception)
    assert said.isprintable()
    return said


def test_a_card_that_moved_has_one_history_and_both_places(moved: Palctl) -> None:
    found = told(moved("gpu", "n7:0", "--json"))
    assert found["uuid"] == MOVED
    assert [(p["node"], p["slot"], p["until"] is None) for p in found["places"]] == [("n3", 1, False), ("n7", 0, True)]
    (kernel,) = found["kernels"]
    nights = kernel["history"]
    assert len(nights) == NIGHTS
    assert [night[-1] for night in nights] == ["n3"] * (NIGHTS - MOVED_AGO) + ["n7"] * MOVED_AGO
    assert all(night[2] == pytest.approx(1.5, rel=0.1) and night[3] == 5 for night in nights)
    assert (kernel["sure"], kernel["runs"]) == (False, 5 * NIGHTS)
    assert [(s["driver"], s["power_cap_w"]) for s in found["setups"]] == [("550.54", 400.0), ("560.1", 400.0)]
    (score,) = found["scores"]
    assert (score["class"], score["known"], score["outlier"]) == ("A", True, True)
    assert score["score"] == pytest.approx(1.5, rel=0.1)


def test_its_life_reads_as_sentences_and_tables(moved: Palctl) -> None:
    text = moved("gpu", MOVED).output
    assert f"{MOVED}: NVIDIA A100; it sits in n7:0 since" in text
    assert "driver 560.1, power cap 400 W, since the night of" in text
    assert "driver 550.54, power cap 400 W." in text
    assert "slower than the median GPU of its model; from" in text
    assert "It is an outlier" in text
    lines = [line.split() for line in text.splitlines()]
    assert [line[:2] for line in lines if line[:1] in (["n3"], ["n7"])] == [["n3", "1"], ["n7", "0"]]
    (kernel,) = [line for line in lines if line[:2] == ["resnet", "A"]]
    assert (kernel[3], len(kernel[-1])) == (str(NIGHTS), NIGHTS)
    assert sum(line[-1:] == ["n7:0"] for line in lines) == MOVED_AGO
    assert sum(line[-1:] == ["n3:1"] for line in lines) == NIGHTS - MOVED_AGO


def test_tables_and_columns_of_its_life_can_be_chosen(moved: Palctl) -> None:
    lines = [line.split() for line in moved("gpu", MOVED, "-o", "nights.ratio,places,nights.where").output.splitlines()]
    assert lines[0] == ["Where", "it", "sat"] and lines[1] == ["NODE", "SLOT", "FROM", "UNTIL"]
    title = lines.index(["RATIO", "WHERE"])
    assert lines[title - 2] == [] and lines[title - 1][:3] == ["Night", "by", "night"]
    assert [line[1] for line in lines[title + 1 :]] == ["n7:0"] * MOVED_AGO + ["n3:1"] * (NIGHTS - MOVED_AGO)
    assert moved("gpu", MOVED, "-o", "help").output.split()[:2] == ["places", "places.node"]
    assert "did you mean 'nights.ratio'" in moved("gpu", MOVED, "-o", "nights.ratios").output
    assert "leave out -o or --json" in moved("gpu", MOVED, "-o", "jobs", "--json").output


def test_what_came_in_its_place_inherits_nothing(moved: Palctl) -> None:
    found = told(moved("gpu", "n3:g1", "--json"))
    assert found["uuid"] == "GPU-new-card"
    assert len(found["kernels"][0]["history"]) == MOVED_AGO
    assert found["scores"][0]["score"] < 1.2


def test_a_slot_at_a_past_time_names_who_sat_there(moved: Palctl) -> None:
    assert told(moved("gpu", "n3:1", "--at", f"{MOVED_AGO + 2}d", "--json"))["uuid"] == MOVED
    before = refused(moved("gpu", "n3:1", "--at", "2001-01-01"))
    assert MOVED in before
    assert "GPU-new-card" in before
    assert "future" in refused(moved("gpu", "n3:1", "--at", "2999-01-01"))
    assert "NODE:SLOT" in refused(moved("gpu", MOVED, "--at", "3d"))


def test_the_list_of_nights_is_as_long_as_asked(moved: Palctl) -> None:
    text = moved("gpu", MOVED, "--since", "3d").output
    assert f"({NIGHTS - 2} older rows: --since 1y)" in text or f"({NIGHTS - 3} older rows: --since 1y)" in text
    assert "older rows" not in moved("gpu", MOVED, "--since", "1y").output
    assert "can't be read" in refused(moved("gpu", MOVED, "--since", "soon"))


# Who is meant --------------------------------------------------------------------------------------------------------


def test_the_beginning_of_a_uuid_is_enough_when_it_is_the_only_one(moved: Palctl) -> None:
    for word in ("GPU-new", "new-c", "gpu-NEW", MOVED[:-1], MOVED[4:-1]):
        assert told(moved("gpu", word, "--json"))["uuid"] in ("GPU-new-card", MOVED), word
    several = refused(moved("gpu", "GPU-n3"))
    assert f"begins 4 UUIDs: {card('n3', 0)}, {MOVED}" in several
    assert "write more of it" in several


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("GPU-new-cart", "GPU-new-card"), ("n3", "n3:0, n3:1"), ("n3:9", "n3:0, n3:1"), ("n33:1", "n3"),
        ("zzz:1", "--per node"), ("?", "palctl scores -o node,slot,uuid"), ("", "palctl scores"),
        ("\x1b[31mn3:1", "n3"), ("%", "palctl scores"), ("'; drop table gpus", "palctl scores"),
    ],
)  # fmt: skip
def test_who_is_not_known_is_answered_with_the_nearest(moved: Palctl, word: str, hint: str) -> None:
    assert hint in refused(moved("gpu", word))


def test_an_empty_database_says_how_to_begin(run: Palctl) -> None:
    assert "palctl profile run" in refused(run("gpu", "n1:0"))


def test_a_card_that_was_taken_out_is_still_told_of(moved: Palctl, store: Store) -> None:
    GpuRepo(store).see([Sighting("GPU-spare", "n7", 0)], time.time())
    found = told(moved("gpu", MOVED, "--json"))
    assert [p["until"] is None for p in found["places"]] == [False, False]
    assert found["scores"][0]["bin"] is None
    assert "it sits nowhere; until" in moved("gpu", MOVED).output
    spare = moved("gpu", "n7:0").output
    assert "model nobody told" in spare
    assert "It has no score" in spare


def test_its_serial_number_is_told_where_its_driver_tells_it(run: Palctl, tmp_path: Path) -> None:
    made = document("n1", fleet(1), tonight())
    put(tmp_path / "spool", replace(made, devices=(replace(made.devices[0], serial="1320021"), *made.devices[1:])))
    assert run("ingest").exit_code == 0
    assert f"{card('n1', 0)}: NVIDIA A100, serial number 1320021; it sits in n1:0" in run("gpu", "n1:0").output
    assert "serial" not in run("gpu", "n1:1").output
    assert [told(run("gpu", f"n1:{slot}", "--json"))["serial"] for slot in (0, 1)] == ["1320021", None]


def test_a_stand_in_says_what_it_is(run: Palctl, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("node,slot,class,score\nn1,0,A,1.2\n")
    run("scores", "import", str(tmp_path / "s.csv"))
    text = run("gpu", "n1:0").output
    assert "stands for a slot whose card has not named itself yet" in text
    assert (
        "Class A: 1.200, 20 % slower than the median GPU of its model; imported (1 run), less than an hour old." in text
    )


# What else is known of it --------------------------------------------------------------------------------------------


def test_what_jobs_taught_is_told_beside_the_nights(moved: Palctl, store: Store) -> None:
    repo = LearnedRepo(store)
    number = repo.cards([MOVED])[MOVED].id
    (was,) = repo.scores([number]).values()
    assert was.profiled is not None
    repo.write([replace(was, score=1.9, ci_low=1.8, ci_high=2.0, jobs=3)], {}, time.time())
    text = moved("gpu", "n7:0").output
    assert f"Its nights alone say {was.profiled:.3f}; 3 stretches of jobs since then moved it." in text
    (score,) = told(moved("gpu", "n7:0", "--json"))["scores"]
    assert (score["score"], score["profiled"], score["jobs"]) == (1.9, was.profiled, 3)


def test_what_one_user_alone_says_waits_for_a_witness(moved: Palctl, store: Store) -> None:
    repo = LearnedRepo(store)
    number = repo.cards([MOVED])[MOVED].id
    (was,) = repo.scores([number]).values()
    repo.write([replace(was, jobs=3, asked=2.9)], {}, time.time())
    assert "One user's jobs say 2.900: it waits for a witness" in moved("gpu", "n7:0").output
    assert "n7:0 waits for a witness: one user's jobs say class A 2.90" in moved("scores").output
    rows = json.loads(moved("scores", "--json").output)
    assert [row["A.asked"] for row in rows if (row["node"], row["slot"]) == ("n7", 0)] == [2.9]


def test_alerts_about_it_and_about_no_other(moved: Palctl, store: Store) -> None:
    now = time.time()
    other = f"{MOVED}0"  # begins like it
    NightRepo(store).alert(
        [
            Alert(f"slower:{MOVED}:A:1", "slower", f"n7:0 ({MOVED}) became slower: \x1b[31mclass A", now),
            Alert(f"repair:{MOVED}", "unhealthy", "memory repairs wait for a reboot", now - 60),
            Alert(f"slower:{other}:A:1", "slower", f"n9:0 ({other}) became slower", now),
        ]
    )
    found = told(moved("gpu", MOVED, "--json"))
    assert [a["kind"] for a in found["alerts"]] == ["slower", "unhealthy"]
    text = moved("gpu", MOVED).output
    assert "memory repairs wait" in text
    assert "\x1b" not in text


def test_jobs_that_ran_on_it_where_it_sat_at_that_time(moved: Palctl, store: Store) -> None:
    day, now = int(DAY), int(time.time())
    moment = int(tonight() - (MOVED_AGO - 1) * DAY)  # when it was first seen in n7

    def outcome(job: int, start: int, node: str, slots: tuple[int, ...], **more: Any) -> JobOutcome:
        return JobOutcome(job, start - 5, start, "A", (node, "n9"), (slots, (0,)), end=start + 3_600, **more)

    OutcomeRepo(store, "c").record(
        [
            outcome(1, moment - 2 * day, "n3", (0, 1), app="before"), outcome(2, moment - 2 * day, "n3", (0,)),
            outcome(3, moment - 2 * day, "n7", (0,)), outcome(4, moment + day, "n7", (0,), app="after", step_time=0.3),
            outcome(5, moment + day, "n3", (1,)), outcome(6, moment + day, "n7", (1, 2)),
            outcome(7, moment + day, "n77", (0,)), outcome(8, now - 90 * day, "n3", (1,)),
            outcome(9, moment + day, "n7", (0,), task=2),
        ]
    )  # fmt: skip
    SampleRepo(store).add(
        [
            JobSample(f"d{i}", "c", job, "after", "n7", (uuid,), moment + day, moment + day + 600, 100, 0.4 + i / 10)
            for i, (job, uuid) in enumerate((("4", MOVED), ("4", MOVED), ("11", MOVED), ("12", card("n7", 1))))
        ]
    )
    found = told(moved("gpu", MOVED, "--json"))["jobs"]
    assert {(j["job"], j["node"]) for j in found} == {("1", "n3"), ("4", "n7"), ("9_2", "n7"), ("11", "n7")}
    (both,) = [j for j in found if j["job"] == "4"]
    assert (both["predicted"], both["measured"], both["gpus"], both["app"]) == (0.3, pytest.approx(0.45), 2, "after")
    text = moved("gpu", MOVED).output
    assert "Jobs of the last 30 days" in text
    assert "9_2" in text


def test_hostile_names_reach_the_terminal_escaped(run: Palctl, tmp_path: Path) -> None:
    row = {"node": "n1", "slot": 0, "uuid": "GPU-1", "model": "\x1b]0;x\x07\u202e", "class": "A", "score": 1.5}
    (tmp_path / "s.json").write_text(json.dumps([row]))
    run("scores", "import", str(tmp_path / "s.json"))
    for words in (("gpu", "GPU-1"), ("gpu", "n1:0", "--json"), ("gpu", "GPU-2")):
        done = run(*words)
        said = done.output + str(done.exception)
        assert not {"\x1b", "\x07", "\u202e"} & set(said)
