"""Results of other tools become the same document, and what belongs to no GPU is told, not guessed."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.probe import importers
from pal_slurm.probe.document import Device, Document, to_json
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.foreign import Context, seconds_of
from pal_slurm.probe.reading import read
from tests.probe.helpers import NOW, card, describe, printed, probe

KNOWN = tuple(
    Device(f"GPU-{node}-{slot}", node, slot, "H100", "nvml", serial=f"{node}{slot}", pci=f"0000000{slot}:18:00.0")
    for node in ("n1", "n2")
    for slot in range(2)
)


def bring(tool: str, data: bytes | str, known: tuple[Device, ...] = KNOWN, node: str = "n1") -> Document:
    raw = data.encode() if isinstance(data, str) else data
    document = importers.bring_in(tool, raw, Context(known, node, NOW))
    assert read(to_json(document).encode(), NOW).document == document, "what we write, we can read"
    return document


def runs(document: Document) -> list[tuple[str, tuple[str, ...], str, float]]:
    return [(run.app, run.uuids, run.scope, round(run.seconds, 9)) for run in document.runs]


def test_csv_brings_times_and_rates() -> None:
    document = bring("csv", (
        "node,gpu_uuid,bench,value,unit,when,slot,model\n"
        "n7,GPU-x,hpl,250,ms,1789990000,0,A100\n"
        "n7,GPU-x,hpl,0.26,s,2026-09-21T10:00:00+00:00,0,A100\n"
        "n7,GPU-y,nv band,400,GB/s,,1,A100\n"
        "n1,,hpl,1000,us,1789990000,1,\n"
    ))  # fmt: skip
    assert runs(document) == [
        ("hpl", ("GPU-x",), "gpu", 0.25),
        ("hpl", ("GPU-x",), "gpu", 0.26),
        ("nv-band", ("GPU-y",), "gpu", 0.0025),
        ("hpl", ("GPU-n1-1",), "gpu", 0.001),
    ]
    assert [run.round for run in document.runs] == [0, 1, 0, 0]
    assert [run.measured_at for run in document.runs] == [1789990000, 1789984800, NOW, 1789990000]
    assert {(device.uuid, device.node, device.slot) for device in document.devices} == {
        ("GPU-x", "n7", 0), ("GPU-y", "n7", 1), ("GPU-n1-1", "n1", 1)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("n1,GPU-1,a,1,parsec,", "line 2: '1' 'parsec' is no time"),
        ("n1,GPU-1,a,nan,s,", "line 2: value 'nan' is no number"),
        ("n1,GPU-1,a,-3,s,", "line 2"),
        ("n1,GPU-1,a,x,s,", "line 2: value 'x' is no number"),
        ("n1,GPU-1,a,1,s,soon", "line 2: when 'soon' is neither"),
        ("n1,;rm -rf,a,1,s,", "line 2: gpu_uuid ';rm -rf' is no UUID"),
        ("n1,,a,1,s,", "line 2: neither gpu_uuid nor slot"),
        ("../n1,GPU-1,a,1,s,", "is no node's name"),
    ],
)
def test_a_csv_row_that_is_wrong_is_named(rows: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        bring("csv", f"node,gpu_uuid,bench,value,unit,when\n{rows}\n")
    assert said in str(error.value)


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n", b"\xff\xff", b"node,gpu_uuid,bench,value,unit,when,extra\n"])
def test_a_csv_with_other_columns_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="csv"):
        bring("csv", data)


DCGM_4 = {
    "category_order": ["Deployment", "Stress"],
    "entity_groups": [
        {"entity_group": "GPU", "entity_group_id": 1, "entities": [
            {"device_id": "2330", "entity_id": 0, "serial_num": "n21"},
            {"device_id": "2330", "entity_id": 1, "serial_num": "unknown"}]},
        {"entity_group": "CPU", "entity_group_id": 7, "entities": [{"entity_id": 0, "serial_num": ""}]}],
    "test_categories": [
        {"category": "Deployment", "tests": [{"name": "software", "results": [
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": "Fail",
             "warnings": [{"error_id": 95, "warning": "DBE detected"}]},
            {"entity_group": "CPU", "entity_group_id": 7, "entity_id": 0, "status": "Skip"}]}]}],
}  # fmt: skip
DCGM_3 = {"DCGM GPU Diagnostic": {"Driver Version Detected": "535.1", "test_categories": [
    {"category": "Stress", "tests": [{"name": "Targeted Power", "results": [
        {"gpu_id": "0", "status": "Pass"},
        {"gpu_id": "1", "status": "Warn", "warnings": "Power is low", "info": "at 300 W"}]}]}]}}  # fmt: skip
DCGM_2 = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [{"name": "GPU Memory", "results": [{"gpu_ids": "0,1", "status": "Pass"}]}],
            }
        ]
    }
}


def test_dcgm_4_tells_cards_by_their_serial_numbers_where_it_can() -> None:
    document = bring("dcgm", json.dumps(DCGM_4))
    assert [(c.name, c.outcome, c.uuid, c.said) for c in document.checks] == [
        ("software", "pass", "GPU-n2-1", ""),  # its serial number says so, though the node was named n1
        ("software", "fail", "GPU-n1-1", "DBE detected"),
        ("software", "skip", None, ""),
    ]


def test_dcgm_2_and_3_tell_cards_by_their_numbers() -> None:
    remarked = "Successfully ran diagnostic for group.\n" + json.dumps(DCGM_3) + "\nbye\n"
    assert [(c.outcome, c.uuid, c.said) for c in bring("dcgm", remarked).checks] == [
        ("pass", "GPU-n1-0", ""), ("warn", "GPU-n1-1", "Power is low; at 300 W")
    ]  # fmt: skip
    assert [c.uuid for c in bring("dcgm", json.dumps(DCGM_2)).checks] == ["GPU-n1-0", "GPU-n1-1"]


def test_a_card_that_no_inventory_knows_is_told_and_its_check_kept_without_it() -> None:
    document = bring("dcgm", json.dumps(DCGM_2), known=KNOWN[:1])
    assert [check.uuid for check in document.checks] == ["GPU-n1-0", None]
    assert "no inventory tells which card is its number 1" in document.faults[0].what


def test_superbench_units_are_told_by_the_metric_and_cards_by_the_rank() -> None:
    lines = [
        {"node": "n1", "gemm-flops/fp16_flops:0": 500.0, "gemm-flops/fp16_flops:1": 400.0, "gemm-flops/return_code": 0,
         "resnet_models/pytorch-resnet50/steptime_train_float32": 250.0, "monitor/gpu_temperature:0": 60},
        {"node": "n2", "mem-bw/h2d_bw:1": 25.0, "mem-bw/return_code": 3, "kernel-launch/event_time:0": 0.005},
    ]  # fmt: skip
    document = bring("superbench", "\n".join(json.dumps(line) for line in lines) + "\n{torn")
    assert runs(document) == [
        ("gemm-flops-fp16_flops", ("GPU-n1-0",), "node", 0.002),
        ("gemm-flops-fp16_flops", ("GPU-n1-1",), "node", 0.0025),
        ("resnet_models-pytorch-resnet50-steptime_train_float32", ("GPU-n1-0", "GPU-n1-1"), "node", 0.25),
        ("mem-bw-h2d_bw", ("GPU-n2-1",), "node", 0.04),
        ("kernel-launch-event_time", ("GPU-n2-0",), "node", 0.000005),
    ]
    assert [check.outcome for check in document.checks] == ["pass", "fail"]
    assert document.faults[0].what.startswith("line 3 was left out: torn")


def case(**more: object) -> dict[str, object]:
    return {"name": "gpu_burn", "result": "pass", "job_nodelist": ["n2"], "job_completion_time_unix": NOW - 5, **more}


def reframe(*cases: Mapping[str, object]) -> str:
    return json.dumps({"session_info": {"data_version": "4.2"}, "runs": [{"testcases": list(cases)}]})


def test_reframe_brings_what_belongs_to_a_gpu_or_to_a_whole_node() -> None:
    values = {
        "cluster:gpu:perf_gpu1": [4000.0, 0, None, None, "Gflop/s", "pass"],
        "cluster:gpu:step": [0.5, 0, None, None, "s"],
        "cluster:gpu:temp": [61, 0, None, None, "degC"],
    }
    document = bring("reframe", reframe(case(perfvalues=values), case(result="fail", fail_reason="sanity error")))
    assert runs(document) == [
        ("gpu_burn-perf", ("GPU-n2-1",), "gpu", 0.00025),
        ("gpu_burn-step", ("GPU-n2-0", "GPU-n2-1"), "node", 0.5),
    ]
    assert document.checks[0].said == "node n2: sanity error"
    assert "temp in 'degC' is no time and no rate" in document.faults[0].what


def test_reframes_older_reports_and_tests_over_several_nodes() -> None:
    old = {
        "name": "old",
        "result": "success",
        "nodelist": ["n1"],
        "perfvars": [{"name": "t", "value": 2.0, "unit": "s"}],
    }
    document = bring("reframe", reframe(old, case(job_nodelist=["n1", "n2"])))
    assert runs(document) == [("old-t", ("GPU-n1-0", "GPU-n1-1"), "node", 2.0)]
    assert "it ran on several nodes" in document.faults[0].what


@pytest.mark.parametrize("tool", importers.names())
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\x00\xff", b'{"runs": 3, "test_categories": {}}'])
def test_no_tool_writes_such_a_file(tool: str, data: bytes) -> None:
    with pytest.raises(BadInput):
        bring(tool, data)


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["node", "runs", "testcases", "perfvalues", "a:b:c", "test_categories", "tests", "results",
                         "name", "status", "gpu_id", "entity_id", "x_flops:0", "nodelist", "warnings", "DCGM"]),
        inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(
    st.sampled_from(["dcgm", "superbench", "reframe"]),
    st.dictionaries(st.sampled_from(["runs", "test_categories", "DCGM"]), _JSON),
)
@settings(max_examples=150, deadline=None)
def test_no_foreign_json_makes_an_importer_fail_otherwise_than_with_a_sentence(tool: str, record: object) -> None:
    try:
        bring(tool, json.dumps(record))
    except BadInput as error:
        assert str(error)


@pytest.mark.parametrize(
    ("value", "unit", "seconds"),
    [
        (2.0, "s", 2.0),
        (2.0, " MS ", 0.002),
        (4.0, "GFLOPS", 0.25),
        (4.0, "img/s", 0.25),
        (1.0, "%", None),
        (0.0, "s", None),
    ],
)
def test_units_become_seconds(value: float, unit: str, seconds: float | None) -> None:
    assert seconds_of(value, unit) == seconds


def test_the_command_joins_a_foreign_file_with_an_inventory(tmp_path: Path) -> None:
    source, inventory, out = describe(tmp_path / "gpus", card(0), card(1)), tmp_path / "inv.json", tmp_path / "out"
    out.mkdir()
    assert probe("inventory", "--devices", source, "-o", str(inventory)).returncode == 0
    (tmp_path / "diag.json").write_text(json.dumps(DCGM_2))
    words = ["import", "dcgm", str(tmp_path / "diag.json"), "--inventory", str(inventory), "--node", "n1"]
    assert [check["uuid"] for check in printed(probe(*words))["checks"]] == ["GPU-0", "GPU-1"]
    assert probe(*words, "-o", str(out)).returncode == 0
    [file] = out.iterdir()
    checked = probe("check", str(file), str(inventory))
    assert checked.returncode == 0 and "import: 2 GPUs, 0 runs, 2 checks, 0 faults" in checked.stdout
    document = read(file.read_bytes(), time.time()).document
    assert document is not None and document.made_by.startswith("pal-probe")


def test_check_names_the_defects_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"format": "pal-probe", "version": 1')
    result = probe("check", str(tmp_path / "bad.json"))
    assert result.returncode == 65 and "torn" in result.stdout
