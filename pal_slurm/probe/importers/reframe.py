"""ReFrame's run report (JSON, data versions 2 to 4). In: bytes. Out: runs; tests that fail become checks.

A performance variable whose name ends in `gpuN` belongs to that GPU of the node; any other one speaks for all GPUs of
the node. A test over several nodes tells nothing about any of them and is left out, which is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.foreign import Book, json_of, node_name, number_in, seconds_of
from pal_slurm.probe.words import plain

_GPU = re.compile(r"(?P<metric>.*?)[_.:-]?(?:gpu|dev|device)[_.:-]?(?P<index>[0-9]{1,3})")


def read(data: bytes, book: Book) -> None:
    report = json_of(data, "reframe")
    runs = report.get("runs")
    if not isinstance(runs, list):
        raise BadInput("reframe: the file has no runs; was it written by `reframe --report-file`?")
    for number, run in enumerate(runs):
        cases = run.get("testcases") if isinstance(run, dict) else None
        for case in cases if isinstance(cases, list) else []:
            if isinstance(case, dict):
                _case(case, number, book)


def _case(case: dict[str, Any], number: int, book: Book) -> None:
    name = plain(str(case.get("name", "unnamed")), 64)
    nodes = case.get("job_nodelist", case.get("nodelist")) or [book.context.node]
    nodes = nodes.split(",") if isinstance(nodes, str) else nodes
    if not isinstance(nodes, list) or len(nodes) != 1:
        book.fault(f"{name}: it ran on several nodes, so its result belongs to none of them")
        return
    node = node_name(nodes[0], "reframe")
    if str(case.get("result", "")).startswith("fail"):
        book.check(name, "fail", None, f"node {node}: {case.get('fail_reason') or 'failed'}")
        return
    told = _number(case.get("job_completion_time_unix"))
    at = book.context.measured_at if told is None else told
    for variable, value, unit in _values(case):
        seconds = seconds_of(value, unit)
        if seconds is None:
            book.fault(f"{name}: {plain(variable, 60)} in {plain(unit, 20)!r} is no time and no rate, and was left out")
            continue
        metric, devices = _devices(variable, node, book)
        app = f"{name}-{metric}" if metric else name
        book.run(app, devices, "gpu" if len(devices) == 1 else "node", seconds, at, number)


def _devices(variable: str, node: str, book: Book) -> tuple[str, list[Device]]:
    match = _GPU.fullmatch(variable)
    if match is None:
        devices = book.of_node(node)
        if not devices:
            book.fault(f"node {plain(node, 80)}: no inventory tells which GPUs it has; use --inventory")
        return variable, devices
    device = book.at(node, int(match["index"]))
    return match["metric"], [device] if device else []


def _values(case: dict[str, Any]) -> Iterator[tuple[str, float, str]]:
    """(variable, value, unit): `perfvalues` since data version 4, `perfvars` before."""
    values = case.get("perfvalues")
    for key, told in values.items() if isinstance(values, dict) else ():
        if isinstance(told, list) and len(told) >= 5 and (value := _number(told[0])) is not None:
            yield str(key).split(":")[-1], value, str(told[4])
    listed = case.get("perfvars")
    for told in listed if isinstance(listed, list) else ():
        if isinstance(told, dict) and (value := _number(told.get("value"))) is not None:
            yield str(told.get("name", "")), value, str(told.get("unit", ""))


def _number(value: object) -> float | None:
    return None if isinstance(value, str) else number_in(value)
