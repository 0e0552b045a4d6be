"""The table of throughputs of two on one GPU: what can't be is refused with its line and its place in the table."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pal_slurm.config import check, load, told_pairs
from pal_slurm.config.pair_file import PairFile
from pal_slurm.errors import BadInput
from pal_slurm.model import JobKind, Sharers

NET, BERT = "('net', 1)", "('bert', 1)"
GOOD = {"v100": {NET: {"null": 10, NET: [6, 6], BERT: [8.0, 4]}, BERT: {"null": 5.0, NET: [4, 8.0], BERT: [0, 0]}}}
A, B = JobKind("net", 1), JobKind("bert", 1)


def written(home: Path, table: object) -> Path:
    path = home / "pairs.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table, indent=1))
    return path


def test_factors_are_throughputs_alone_over_those_together(tmp_path: Path) -> None:
    beside = PairFile(written(tmp_path, GOOD)).pairs().beside
    assert beside == {
        Sharers(A, A, "v100"): pytest.approx(10 / 6), Sharers(A, B, "v100"): 1.25, Sharers(B, A, "v100"): 1.25,
        Sharers(B, B, "v100"): math.inf,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("now", "line", "said"),
    [
        ("[8.0, 0]", 9, "one runs and the other never"),
        ("[0, 4]", 9, "one runs and the other never"),
        ("[-8.0, 4]", 9, "throughputs are 0 to 1e+12"),
        ("[1e-9, 4]", 9, "a step takes 1e+10 times as long as alone"),
        ("[1e9, 4]", 9, "a step takes 1e-08 times as long as alone"),
        ("[8.0]", 9, "not two throughputs"),
        ("8.0", 9, "not two throughputs"),
        (f"[{10**400}, 4]", 9, "throughputs are 0 to 1e+12"),
        (f"[{10**15}, 4]", 9, "throughputs are 0 to 1e+12"),
        ("[8.0, null]", 9, "not two throughputs"),
        ('["8.0", 4]', 9, "not two throughputs"),
        ("[NaN, 4]", 9, "is not Gavel's throughput table"),
        ("[Infinity, 4]", 9, "is not Gavel's throughput table"),
        ("[8.0, 4", 10, "is not Gavel's throughput table"),
    ],
)
def test_what_two_can_not_do_is_refused_with_its_line_and_place(tmp_path: Path, now: str, line: int, said: str) -> None:
    text = json.dumps(GOOD, indent=1).replace("[\n    8.0,\n    4\n   ]", now, 1)
    path = written(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        PairFile(path).pairs()
    assert str(refused.value).startswith(f"{path}:{line}"), refused.value
    assert said in str(refused.value)
    if "throughput table" not in said:
        assert f"v100, {NET}, {BERT}: " in str(refused.value)


def test_one_direction_alone_is_refused(tmp_path: Path) -> None:
    table = {"v100": {NET: {"null": 10, BERT: [8, 4]}, BERT: {"null": 5}}}
    with pytest.raises(BadInput, match=r"pairs.json:5, v100, .*one direction only"):
        PairFile(written(tmp_path, table)).pairs()


@pytest.mark.parametrize("alone", [-1, "x", None, True, [1]])
def test_a_job_type_without_a_throughput_of_its_own_is_refused(tmp_path: Path, alone: object) -> None:
    with pytest.raises(BadInput, match=r"pairs.json:\d, v100, \('net', 1\)"):
        PairFile(written(tmp_path, {"v100": {NET: {"null": alone}}})).pairs()


def test_pal_yaml_names_the_file_s_fault_and_what_it_says_itself_wins(tmp_path: Path) -> None:
    table = written(tmp_path, GOOD)
    yaml = tmp_path / "pal.yaml"
    yaml.write_text(
        "sharing:\n  enabled: true\n"
        f"  pairs_file: {table}\n"
        "  pairs:\n  - {app: net, beside: bert, factor: 2, back: 3, model: v100}\n"
        "  - {app: net, beside: bert, factor: 7, back: 7}\n  - {app: net, beside: vgg, fits: false}\n"
    )
    told = told_pairs(load(yaml), ("v100", "a100"))
    vgg = JobKind("vgg", 1)
    assert (told[Sharers(A, B, "v100")], told[Sharers(B, A, "v100")]) == (2.0, 3.0)
    assert told[Sharers(A, B, "a100")] == 7.0
    assert told[Sharers(A, A, "v100")] == pytest.approx(10 / 6)
    assert told[Sharers(A, vgg, "a100")] == told[Sharers(vgg, A, "v100")] == math.inf
    written(tmp_path, json.dumps(GOOD, indent=1).replace("8.0", "-8.0", 1))
    [fault] = check(yaml)
    assert (fault.line, fault.key) == (3, "sharing.pairs_file")
    assert f"{table}:9, v100, {NET}, {BERT}: throughputs are 0 to" in fault.message
