"""Documents on the way in. In: bytes of unknown origin. Out: a Document or JobPart, or every defect by name.

`read` never raises for what the bytes hold. Bytes that are too many are refused before they are decoded.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pal_slurm.probe import limits, parts
from pal_slurm.probe.document import (
    ALL_REDUCE,
    BACKENDS,
    FORMAT,
    KINDS,
    VERSION,
    Device,
    Document,
    JobPart,
    ReduceDocument,
    TimedRun,
)
from pal_slurm.probe.fields import Defect, Defects, Fields
from pal_slurm.probe.words import APP, JOB, NODE


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file held. With defects there is nothing to use."""

    document: Document | None = None
    part: JobPart | None = None
    reduces: ReduceDocument | None = None
    defects: tuple[Defect, ...] = ()


def read(data: bytes, now: float) -> Reading:
    """A document (one JSON object), or a part of a job (JSON lines whose first says `job`)."""
    defects = Defects()
    if len(data) > limits.MOST_BYTES:
        return _too_large(len(data))
    if not data.strip():
        return Reading(defects=(Defect("", "torn: the file is empty"),))
    if b'"part"' in data.lstrip().partition(b"\n")[0][:500]:
        if len(data) > limits.MOST_BYTES_OF["job"]:
            return _too_large(len(data), "job")
        found = _job_part(data, defects, now)
        return Reading(defects=defects.all()) if defects.found or found is None else Reading(part=found)
    value = decode(data, "", defects)
    if defects.found:
        return Reading(defects=defects.all())
    kind = value.get("kind") if isinstance(value, dict) else None
    if isinstance(kind, str) and len(data) > limits.MOST_BYTES_OF.get(kind, limits.MOST_BYTES):
        return _too_large(len(data), kind)
    if isinstance(value, dict) and kind == ALL_REDUCE:
        reduces = _reduces(value, defects, now)
        return Reading(defects=defects.all()) if defects.found else Reading(reduces=reduces)
    document = _document(value, defects, now)
    return Reading(defects=defects.all()) if defects.found else Reading(document=document)


def read_file(path: Path, now: float) -> Reading:
    """A file of the spool. What can't be read, is no file (a pipe would block), or is too large is a defect."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                return Reading(defects=(Defect("", "this is no regular file"),))
            if facts.st_size > limits.MOST_BYTES:
                return _too_large(facts.st_size)
            data = file.read(limits.MOST_BYTES + 1)
    except OSError as error:
        return Reading(defects=(Defect("", f"can't be read: {error.strerror}"),))
    return read(data, now)


def _too_large(size: int, kind: str = "") -> Reading:
    most = limits.MOST_BYTES_OF.get(kind, limits.MOST_BYTES)
    of = f" of kind {kind}" if kind else ""
    return Reading(defects=(Defect("", f"{size} bytes; a document{of} has at most {most}"),))


def decode(data: bytes, path: str, defects: Defects) -> object:
    """JSON to a value; what is no JSON is a defect that tells where it ends."""

    def once(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
        members = list(pairs)
        record = dict(members)
        if len(record) < len(members):
            twice = next(name for name, n in Counter(name for name, _ in members).items() if n > 1)
            defects.add(path, f"the field {twice!r} is there twice")
        return record

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        torn = "torn: it ends in the middle, " if error.reason == "unexpected end of data" else ""
        defects.add(path, f"{torn}no UTF-8 at byte {error.start} of {len(data)}")
    except json.JSONDecodeError as error:
        torn = "torn: it ends in the middle, " if _ends_early(error) else ""
        defects.add(path, f"{torn}no JSON: {error.msg} at character {error.pos} of {len(error.doc)}")
    except RecursionError:
        defects.add(path, "nested too deeply")
    except ValueError as error:
        defects.add(path, f"no JSON: {error}")
    return None


def _ends_early(error: json.JSONDecodeError) -> bool:
    """A document ends with `}`; one that is cut off may too, but then the end is where the parser wants more."""
    text = error.doc.rstrip()
    return not text.endswith("}") or error.pos >= len(text) or error.msg.startswith("Unterminated string")


def _header(fields: Fields, defects: Defects) -> bool:
    """Whether the rest is worth reading."""
    if fields.take("format") != FORMAT:
        defects.add("format", f"this is no {FORMAT} document")
        return False
    version = fields.take("version")
    if version != VERSION or isinstance(version, bool):
        defects.add("version", f"{version!r} is unknown to this release, which reads {VERSION}; upgrade the older side")
        return False
    return True


def _document(value: object, defects: Defects, now: float) -> Document | None:
    fields = Fields(value, "", defects)
    if not _header(fields, defects):
        return None
    document = Document(
        kind=fields.choice("kind", KINDS[:3]),
        made_by=fields.text("made_by"),
        begun_at=parts.moment(fields, "begun_at", now),
        ended_at=parts.moment(fields, "ended_at", now),
        job=fields.text_or_none("job", JOB),
        devices=fields.objects("devices", limits.MOST_DEVICES, parts.device),
        kernels=fields.objects("kernels", 1000, parts.kernel),
        runs=fields.objects("runs", limits.MOST_RUNS, lambda each: parts.run(each, now)),
        checks=fields.objects("checks", limits.MOST_RUNS, parts.check),
        faults=fields.objects("faults", limits.MOST_DEVICES, parts.fault),
    )
    fields.done()
    if document.ended_at < document.begun_at:
        defects.add("ended_at", "lies before begun_at")
    _devices_agree(document.devices, defects)
    known = {device.uuid for device in document.devices}
    _runs_agree(document.runs, known, {kernel.app for kernel in document.kernels}, defects)
    for i, check in enumerate(document.checks):
        if check.uuid is not None and check.uuid not in known:
            defects.add(f"checks[{i}].uuid", f"{check.uuid!r} is none of the devices")
    return document


def _reduces(value: object, defects: Defects, now: float) -> ReduceDocument | None:
    fields = Fields(value, "", defects)
    if not _header(fields, defects):
        return None
    fields.take("kind")
    document = ReduceDocument(
        made_by=fields.text("made_by"),
        begun_at=parts.moment(fields, "begun_at", now),
        ended_at=parts.moment(fields, "ended_at", now),
        job=fields.text_or_none("job", JOB),
        backend=fields.choice("backend", BACKENDS),
        model=fields.text("model", APP),
        nodes=parts.nodes(fields, "nodes"),
        reduced=fields.objects("reduced", limits.MOST_SIZES, parts.reduced),
    )
    fields.done()
    if document.ended_at < document.begun_at:
        defects.add("ended_at", "lies before begun_at")
    if len(document.nodes) < 2:
        defects.add("nodes", f"{len(document.nodes)} ranks; two at least tell what lies between them")
    for size, n in Counter(one.bytes for one in document.reduced).items():
        if n > 1:
            defects.add("reduced", f"{size} bytes are there {n} times")
    return document


def _devices_agree(devices: tuple[Device, ...], defects: Defects) -> None:
    for uuid, n in Counter(device.uuid for device in devices).items():
        if n > 1 and uuid:
            defects.add("devices", f"the UUID {uuid!r} is there {n} times; each card has its own")
    places = Counter((device.node, device.slot) for device in devices if device.slot is not None)
    for (node, slot), n in places.items():
        if n > 1:
            defects.add("devices", f"{n} cards sit in slot {slot} of node {node!r}")


def _runs_agree(runs: tuple[TimedRun, ...], uuids: set[str], apps: set[str], defects: Defects) -> None:
    for i, run in enumerate(runs):
        for uuid in run.uuids:
            if uuid not in uuids:
                defects.add(f"runs[{i}].uuids", f"{uuid!r} is none of the devices")
        if len(set(run.uuids)) != len(run.uuids):
            defects.add(f"runs[{i}].uuids", "a GPU is there twice")
        if run.app not in apps:
            defects.add(f"runs[{i}].app", f"{run.app!r} is none of the kernels")


def _job_part(data: bytes, defects: Defects, now: float) -> JobPart | None:
    if not data.endswith(b"\n"):
        defects.add("", "torn: the last line has no end")
    lines = data.rstrip(b"\n").split(b"\n")
    if len(lines) > limits.MOST_LINES:
        defects.add("", f"{len(lines)} lines, at most {limits.MOST_LINES} are allowed")
        return None
    values = [decode(line, f"line {i}", defects) for i, line in enumerate(lines, 1)]
    if defects.found:
        return None
    head = Fields(values[0], "line 1", defects)
    if not _header(head, defects):
        return None
    head.choice("kind", ("job",))
    if len(values) == 1:
        defects.add("line 1", "torn: the file has no `end` line")
    body = parts.Body(defects, now)
    for i, value in enumerate(values[1:], 2):
        body.add(value, f"line {i}", is_last=i == len(values))
    devices = head.objects("devices", limits.MOST_DEVICES, parts.device)
    part = JobPart(
        job=head.text("job", JOB),
        node=head.text("node", NODE),
        part=head.whole("part", 0, 10**9),
        made_by=head.text("made_by"),
        app=head.text_or_none("app", APP),
        devices=devices,
        usage=tuple(body.usage),
        steps=tuple(body.steps),
        faults=tuple(body.faults),
        begun_at=parts.moment(head, "begun_at", now),
        ended_at=body.ended_at,
        last=body.last,
        user=head.whole_or_none("user", *limits.USER),
    )
    head.done()
    _devices_agree(devices, defects)
    uuids = {device.uuid for device in devices}
    for usage in part.usage:
        if usage.uuid not in uuids:
            defects.add("usage", f"{usage.uuid!r} is none of the devices")
    return part
