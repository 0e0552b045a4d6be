"""palctl scores import: strict, all or nothing, every fault by file, line and field."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.intake.score_file import Entry, read_scores
from pal_slurm.store import GpuRepo, PlacedScore, ScoreRepo, Sighting, open_store

NOW = 1_800_000_000.0
HEAD = "node,slot,uuid,model,class,score\n"


class Site:
    """A config, a database, and palctl on them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "pal.yaml"
        self.config.write_text(
            f"state_dir: {directory}\ncluster: {{backend: cli, bin_dir: {directory}}}\n"
            "apps:\n  resnet: {class: A}\n  bert: {class: B}\n"
        )
        self.url = f"sqlite:///{directory}/pal.sqlite"
        open_store(self.url, create=True).close()

    def palctl(self, *words: str, stdin: bytes | None = None) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(self.config), *words], input=stdin)

    def imported(self, text: str | bytes, name: str = "scores.csv") -> Result:
        path = self.directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.palctl("scores", "import", str(path))

    def scores(self) -> list[PlacedScore]:
        store = open_store(self.url)
        try:
            return ScoreRepo(store).placed()
        finally:
            store.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield Site(tmp_path)


def values(site: Site) -> dict[tuple[str, int, str], float]:
    return {(s.node, s.slot, s.cls): round(s.score, 4) for s in site.scores()}


def test_where_slurm_can_not_be_asked_it_is_said_that_nodes_were_not_held_against_it(site: Site) -> None:
    result = site.imported(HEAD + "n1,g0,GPU-1,v100,A,1.25\n")
    assert result.exit_code == 0 and "1 scores of 1 GPUs" in result.stdout
    assert "palctl: nodes and slots were not held against Slurm's: " in result.stderr


def test_csv_scores_are_stored_by_uuid(site: Site) -> None:
    result = site.imported(HEAD + "n1,g0,GPU-1,v100,A,1.25\nn1,1,GPU-2,v100,A,0.98\n")
    assert result.exit_code == 0, result.output
    assert "2 scores of 2 GPUs" in result.output
    assert [(s.uuid, s.model, s.node, s.slot, s.score) for s in site.scores()] == [
        ("GPU-1", "v100", "n1", 0, 1.25),
        ("GPU-2", "v100", "n1", 1, 0.98),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '[{"node":"n1", "slot":0, "class":"A", "score":1.25},\n{"node":"n1", "slot":"g1", "app":"bert", "score":2}]',
        '{"node":"n1", "slot":0, "app":"resnet", "score":1.25}\n{"node":"n1", "slot":1, "class":"B", "score":2}',
        "\ufeff# who measured it\nNode, Slot, App, Score\nn1, 0, resnet, 1.25\n\nn1, 1, bert, 2\n",
    ],
    ids=["json", "json lines", "csv with a comment, a byte order mark and apps"],
)
def test_all_formats_say_the_same(site: Site, text: str) -> None:
    assert site.imported(text).exit_code == 0
    assert values(site) == {("n1", 0, "A"): 1.25, ("n1", 1, "B"): 2.0}


def test_run_times_become_scores_against_the_median_of_the_same_model(site: Site) -> None:
    rows = [("n1", 0, "v100", "1.0 1.0 9.0"), ("n1", 1, "v100", "1.2"), ("n1", 2, "v100", "0.5")]
    rows += [("n2", 0, "a100", "0.2"), ("n2", 1, "a100", "0.3 0.3")]
    text = "node,slot,model,app,seconds\n" + "".join(f"{n},{s},{m},resnet,{t}\n" for n, s, m, t in rows)
    assert site.imported(text).exit_code == 0
    assert values(site) == {
        ("n1", 0, "A"): 1.0, ("n1", 1, "A"): 1.2, ("n1", 2, "A"): 0.5, ("n2", 0, "A"): 0.8, ("n2", 1, "A"): 1.2,
    }  # fmt: skip
    by_place = {(s.node, s.slot): s for s in site.scores()}
    assert by_place["n1", 0].n_runs == 3
    assert by_place["n1", 0].ci_high is not None


def test_a_row_per_gpu_gives_slots_in_the_order_of_the_rows(site: Site) -> None:
    assert site.imported("gpu,node,class_a,class_b\nx7,n1,1.25,1\nx9,n2,1,1\nx8,n1,0.98,2\n").exit_code == 0
    assert values(site) == {
        ("n1", 0, "A"): 1.25, ("n1", 0, "B"): 1.0, ("n1", 1, "A"): 0.98, ("n1", 1, "B"): 2.0,
        ("n2", 0, "A"): 1.0, ("n2", 0, "B"): 1.0,
    }  # fmt: skip


BAD = [
    ("n1,0,u-01,v100,A,nan", "score", "is NaN"),
    ("n1,0,u-01,v100,A,0", "score", "must be more than zero"),
    ("n1,0,u-01,v100,A,-1.2", "score", "must be more than zero"),
    ("n1,0,u-01,v100,A,inf", "score", "is infinite"),
    ("n1,0,u-01,v100,A,1e400", "score", "is infinite"),
    ("n1,0,u-01,v100,A,1e9", "score", "can't be true"),
    ("n1,0,u-01,v100,A,1;2", "score", "is not a number"),
    ("n1,0,u-01,v100,A,", "score", "give either a score or seconds"),
    ("n1,0,u-01,v100,Z,1", "class", "none of the classes A, B, C"),
    ("n1,0,u-01,v100,,1", "class", "missing"),
    ("n1,,u-01,v100,A,1", "slot", "missing"),
    ("n1,-1,u-01,v100,A,1", "slot", "is no slot"),
    ("n1,999,u-01,v100,A,1", "slot", "is no slot"),
    (",0,u-01,v100,A,1", "node", "missing"),
    ("n[1-3],0,u-01,v100,A,1", "node", "is not allowed"),
    ("@group,0,u-01,v100,A,1", "node", "is not allowed"),
    ("$(id),0,u-01,v100,A,1", "node", "is not allowed"),
    ("n1,0,'; DROP TABLE gpus,v100,A,1", "uuid", "is not allowed"),
    ("n1,0,u-01,\x1b[31m,A,1", "model", "is not allowed"),
    ("n1,0,u-01,v100,A", "row", "5 cells where the header has 6"),
    ("n1,0,u-01,v100,A,1,1", "row", "7 cells where the header has 6"),
]


@pytest.mark.parametrize(("row", "field", "words"), BAD, ids=[f"{f}-{w}-{i}" for i, (_, f, w) in enumerate(BAD)])
def test_a_bad_row_is_refused_with_file_line_and_field_and_nothing_is_stored(
    site: Site, row: str, field: str, words: str
) -> None:
    site.imported(HEAD + "n9,0,old-1,v100,A,1.1\n", "first.csv")
    before = site.scores()
    result = site.imported(HEAD + "n1,1,u-02,v100,A,1.3\n" + row + "\n")
    assert isinstance(result.exception, BadInput)
    said = str(result.exception)
    assert f"scores.csv:3: {field}: " in said
    assert words in said
    assert "stored scores are untouched" in said
    assert site.scores() == before


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("n1,0,u-01,v100,A,1\nn1,0,u-01,v100,A,1\n", "3: class: n1 slot 0 has this class and app in line 2 already"),
        ("n1,0,u-01,v100,A,1\nn1,1,u-01,v100,A,1\n", "3: uuid: u-01 is on n1 slot 0 in line 2"),
        ("n1,0,u-01,v100,A,1\nn1,0,u-02,v100,B,1\n", "3: uuid: n1 slot 0 holds u-01 in line 2"),
    ],
)
def test_contradictions_are_refused(site: Site, rows: str, words: str) -> None:
    assert words in str(site.imported(HEAD + rows).exception)
    assert site.scores() == []


def test_all_faults_are_told_at_once(site: Site) -> None:
    said = str(site.imported(HEAD + "".join(f"n1,{i},,v100,A,-{i}\n" for i in range(1, 81))).exception)
    assert "scores.csv:2: score" in said
    assert "scores.csv:51: score" in said
    assert "... and 30 more" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "holds no rows"),
        (HEAD.encode(), "holds no rows"),
        (b"node,slot,clas,score\nn1,0,A,1\n", "no such field; did you mean `class`"),
        (b"[1, 2]", "must be a list of objects"),
        (b'[{"node": "n1"', "not JSON"),
        (b'[{"node": "n1", "node": "n2"}]', "given twice"),
        (b"[" * 100_000, "holds no rows"),
        (b'[{"node": ' + b"[" * 100_000, "not JSON"),
        (b'[{"node": "n1", "slot": 0, "class": "A", "score": NaN}]', "is NaN"),
        (b'[{"node": "n1", "slot": 0, "class": "A", "score": true}]', "is not a number"),
        (b'[{"node": "n1", "slot": 0.0, "class": "A", "score": 1}]', "is no slot"),
        (b'[{"node": {}, "slot": 0, "class": "A", "score": 1}]', "is not allowed"),
        (b'[{"node": "n1", "slot": 0, "class": ["A"], "score": 1}]', "none of the classes"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (HEAD.encode() + b'n1,0,"unclosed\n', "not CSV"),
        (HEAD.encode() + b"n1,0,\x00,v100,A,1\n", "uuid"),
        (b"node,slot,class,score,measured_at\nn1,0,A,1,2099-01-01\n", "in the future"),
        (b"node,slot,class,score,measured_at\nn1,0,A,1,yesterday\n", "is no time"),
        (b"node,slot,app,score\nn1,0,gpt9,1\n", "palctl apps set gpt9=A"),
    ],
)
def test_broken_files_are_refused_with_a_reason(site: Site, text: bytes, words: str) -> None:
    result = site.imported(text)
    assert isinstance(result.exception, BadInput), result.output
    assert words in str(result.exception)
    assert site.scores() == []


def test_the_same_file_again_changes_nothing(site: Site) -> None:
    site.imported(HEAD + "n1,0,u-01,v100,A,1.2\n")
    before = site.scores()
    result = site.imported(HEAD + "n1,0,u-01,v100,A,1.2\n", "copy.csv")
    assert "imported before" in result.output
    assert site.scores() == before


def test_a_score_without_uuid_belongs_to_the_card_that_sits_there(site: Site) -> None:
    site.imported(HEAD + "n1,0,GPU-1,v100,A,1.2\n")
    site.imported("node,slot,class,score\nn1,0,A,1.3\nn1,1,A,0.9\n")
    assert [(s.uuid, s.score) for s in site.scores()] == [("GPU-1", 1.3), ("at-n1-1", 0.9)]


def test_once_a_card_names_itself_it_inherits_nothing_from_the_stand_in(site: Site) -> None:
    site.imported("node,slot,class,score\nn1,0,A,1.3\n")
    store = open_store(site.url)
    GpuRepo(store).see([Sighting("GPU-1", "n1", 0)], NOW)
    store.close()
    assert site.scores() == []


def test_standard_input_is_read(site: Site) -> None:
    assert site.palctl("scores", "import", "-", stdin=(HEAD + "n1,0,u-01,v100,A,1.2\n").encode()).exit_code == 0
    assert values(site) == {("n1", 0, "A"): 1.2}


def test_a_file_without_end_is_refused(site: Site) -> None:
    result = site.palctl("scores", "import", "/dev/zero")
    assert isinstance(result.exception, BadInput)
    assert "larger than 64 MB" in str(result.exception)


def test_a_missing_file_is_said_to_be_missing(site: Site) -> None:
    result = site.palctl("scores", "import", "/no/such/file")
    assert "No such file" in str(result.exception)


def test_a_date_is_kept_as_the_age_of_the_score(site: Site) -> None:
    site.imported("node,slot,class,score,measured_at\nn1,0,A,1.2,2026-01-02T03:04:05Z\nn1,1,A,1.2,1767323045\n")
    assert [s.measured_at for s in site.scores()] == [1767323045.0, 1767323045.0]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_whatever_the_bytes_are_they_are_refused_or_read_and_never_crash(data: bytes) -> None:
    try:
        entries = read_scores(data, "f", ("A",), NOW)
    except BadInput as error:
        assert all(line.isprintable() for line in str(error).split("\n"))
    else:
        assert all(isinstance(entry, Entry) for entry in entries)


names = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
good_rows = st.lists(
    st.tuples(names, st.integers(0, 7), st.sampled_from("AB"), st.floats(0.1, 9.0)), min_size=1, max_size=30,
    unique_by=lambda row: row[:3],
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(good_rows)
def test_what_goes_in_as_json_comes_out_of_palctl_scores_as_json(rows: list[tuple[str, int, str, float]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        site = Site(Path(directory))
        text = json.dumps([{"node": n, "slot": s, "class": c, "score": v} for n, s, c, v in rows])
        assert site.imported(text, "s.json").exit_code == 0
        shown = json.loads(site.palctl("scores", "--json").output)
        told = {(r["node"], r["slot"], c): r[c] for r in shown for c in "AB" if r[c] is not None}
        assert told == {(n, s, c): v for n, s, c, v in rows}
