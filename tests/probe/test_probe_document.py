"""The document on its way in: what is whole comes through unchanged, and everything else is named."""

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.probe import limits, spool
from pal_slurm.probe.document import to_json
from pal_slurm.probe.errors import ProbeError
from pal_slurm.probe.reading import read, read_file
from tests.probe.helpers import NOW, as_json, document

Change = Callable[[dict[str, Any]], object]


def defects(data: bytes) -> str:
    reading = read(data, NOW)
    assert reading.document is None and reading.part is None, "what has a defect must not be used"
    return "\n".join(str(defect) for defect in reading.defects)


def test_a_document_comes_back_as_it_was_written() -> None:
    assert read(to_json(document()).encode(), NOW).document == document()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["runs"][0].update(unit="ms"), "runs[0].unit: 'ms' is not 's'"),
        (lambda d: d["runs"][0].update(seconds=float("nan")), "runs[0].seconds: nan is not a finite number"),
        (lambda d: d["runs"][0].update(seconds=float("inf")), "runs[0].seconds: inf is not"),
        (lambda d: d["runs"][0].update(seconds=0), "runs[0].seconds: 0 is outside 1e-09"),
        (lambda d: d["runs"][0].update(seconds="0.1"), "runs[0].seconds: text instead of a number"),
        (lambda d: d["runs"][0].update(seconds=True), "runs[0].seconds: true or false instead of a number"),
        (lambda d: d["runs"][0].update(seconds=10**400), "runs[0].seconds"),
        (lambda d: d["runs"][1].update(measured_at=NOW + 7200), "runs[1].measured_at: 1790007200 lies 7200 s in the"),
        (lambda d: d["runs"][1].update(measured_at=NOW * 1000), "it looks like milliseconds"),
        (lambda d: d["runs"][1].update(measured_at=1000.0), "lies before 2020"),
        (lambda d: d["runs"][0]["telemetry"].update(power_w=250000.0), "runs[0].telemetry.power_w: 250000 is outside"),
        (lambda d: d["runs"][0]["telemetry"].update(util_compute=93), "not percent"),
        (lambda d: d["runs"][0]["telemetry"]["reasons"].update(idle=50), "runs[0].telemetry.reasons.idle"),
        (lambda d: d["runs"][0].update(uuids=["GPU-9"]), "runs[0].uuids: 'GPU-9' is none of the devices"),
        (lambda d: d["runs"][0].update(uuids=[]), "runs[0].uuids: is no list of at least one UUID"),
        (lambda d: d["runs"][0].update(app="bert"), "runs[0].app: 'bert' is none of the kernels"),
        (lambda d: d["runs"][0].pop("seconds"), "runs[0].seconds: is missing"),
        (lambda d: d["runs"][0].update(colour="red"), "runs[0].colour: is not a field of this format"),
        (lambda d: d["devices"][1].update(uuid="GPU-0"), "devices: the UUID 'GPU-0' is there 2 times"),
        (lambda d: d["devices"][1].update(slot=0), "devices: 2 cards sit in slot 0 of node 'n1'"),
        (lambda d: d["devices"][0].update(uuid="'; DROP TABLE gpus; --"), "devices[0].uuid"),
        (lambda d: d["devices"][0].update(model="\x1b[31mred"), "characters that can't be printed"),
        (lambda d: d["devices"][0].update(model="\ud800"), "characters that can't be printed"),
        (lambda d: d["devices"][0].update(model="m" * 65), "65 characters, at most 64"),
        (lambda d: d["devices"][0].update(node="../../etc"), "devices[0].node"),
        (lambda d: d["devices"][0].update(slot=-1), "devices[0].slot: -1 is outside"),
        (lambda d: d["devices"][0].update(slot=0.5), "devices[0].slot: a number instead of a whole number"),
        (lambda d: d["devices"][0].update(power_cap_w=400000), "it looks like milliwatts"),
        (lambda d: d["devices"][0].update(mig="no"), "devices[0].mig: text instead of true or false"),
        (lambda d: d.update(version=2), "version: 2 is unknown to this release"),
        (lambda d: d.update(format="other"), "format: this is no pal-probe document"),
        (lambda d: d.update(kind="party"), "kind: 'party' is none of inventory, bench, import"),
        (lambda d: d.update(runs={}), "runs: an object instead of a list"),
        (lambda d: d.update(runs=[3]), "runs[0]: a number instead of an object"),
        (lambda d: d.update(ended_at=NOW - 100), "ended_at: lies before begun_at"),
        (lambda d: d.update(devices=None), "devices: is null"),
        (lambda d: d.update(kernels=[{"app": "resnet", "spec": "x", "cls": "$(id)"}]), "kernels[0].cls"),
    ],
)  # fmt: skip
def test_each_defect_is_named_by_its_place(change: Change, said: str) -> None:
    fields = as_json()
    change(fields)
    assert said in defects(json.dumps(fields).encode())


def test_all_defects_are_named_at_once_but_not_without_end() -> None:
    fields = as_json()
    fields["devices"][0]["slot"] = -1
    fields["runs"] = [{**fields["runs"][0], "unit": "ms"} for _ in range(200)]
    said = defects(json.dumps(fields).encode()).splitlines()
    assert "slot" in said[0]
    assert said[-1] == "151 further defects are not named"


@pytest.mark.parametrize(
    "whole",
    [
        to_json(document()),
        to_json(document(made_by='näher {[]} " ü')),
        json.dumps(as_json(), indent=2),
        json.dumps({**as_json(), "made_by": "näher {[]} ü"}, ensure_ascii=False),
    ],
    ids=["line", "escaped", "indented", "utf-8"],
)
def test_a_document_cut_off_anywhere_is_torn(whole: str) -> None:
    data = whole.strip().encode()
    for cut in range(len(data)):
        assert defects(data[:cut]).startswith("torn: "), data[:cut][-40:]


def test_a_document_that_is_wrong_in_the_middle_is_not_torn() -> None:
    data = to_json(document()).encode()
    for wrong in (data.replace(b",", b";", 1), data.replace(b'"', b'"\n', 1), data.replace(b"bench", b"\xff")):
        assert "torn" not in defects(wrong)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe", "no UTF-8 at byte 0"),
        (b'{"format": "pal-probe", "format": "x"}', "the field 'format' is there twice"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"[]", "a list instead of an object"),
        (b"null", "nothing instead of an object"),
        (b'{"format": "pal-probe", "version": ' + b"9" * 5000 + b"}", "no JSON"),
        (b"hello", "no JSON"),
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(data: bytes, said: str) -> None:
    assert said in defects(data)


def test_too_many_bytes_are_refused_before_they_are_decoded() -> None:
    assert "bytes; a document has at most" in defects(b" " * (limits.MOST_BYTES + 1))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_value_in_any_place_makes_the_reader_fail(data: st.DataObject) -> None:
    fields = copy.deepcopy(as_json())
    record: Any = fields
    for _ in range(4):
        key = data.draw(st.sampled_from(sorted(record) if isinstance(record, dict) else range(len(record))))
        if isinstance(record[key], dict | list) and record[key] and data.draw(st.booleans()):
            record = record[key]
        else:
            record[key] = data.draw(_VALUES)
            break
    reading = read(json.dumps(fields).encode(), NOW)
    assert (reading.document is None) == bool(reading.defects)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    assert read(data, NOW).defects


def test_a_number_that_is_not_finite_is_never_written() -> None:
    broken = document(ended_at=float("nan"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(broken)


def test_a_file_appears_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    spool.write(tmp_path / "new" / "a.json", "text")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json"]
    assert (tmp_path / "new" / "a.json").read_text() == "text"


def test_a_spool_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProbeError, match=r"can't be written: .*is the spool mounted"):
        spool.write(tmp_path / "file" / "a.json", "text")


def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    said = {name: str(read_file(tmp_path / name, NOW).defects[0]) for name in ("pipe", "link", "none", ".")}
    assert said["pipe"] == "this is no regular file"
    assert all("can't be read" in said[name] for name in ("link", "none", "."))


def test_a_gigabyte_is_refused_without_reading_it(tmp_path: Path) -> None:
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(2**30)
    assert "1073741824 bytes; a document has at most" in str(read_file(tmp_path / "big.json", NOW).defects[0])
