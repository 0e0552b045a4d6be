"""SuperBench's results-summary.jsonl: one line per node, `benchmark/run/metric:rank` -> number. In: bytes. Out: runs.

The metric's name tells its unit. Ranks of a node run at the same time, so their scope is `node`; a metric without a
rank speaks for the whole node. Return codes become checks.
"""

from __future__ import annotations

import re

from pal_slurm.probe.fields import Defects
from pal_slurm.probe.foreign import Book, node_name, number_in, seconds_of
from pal_slurm.probe.reading import decode
from pal_slurm.probe.words import plain

_UNITS = (
    (re.compile(r"steptime|step_times?\b|_time\b|latency"), "ms"),  # its models tell milliseconds
    (re.compile(r"throughput|flops|_bw\b|bandwidth|_ops\b"), "/s"),
)
_RANKED = re.compile(r"(?P<metric>.+?)(?::(?P<rank>[0-9]{1,3}))?")


def read(data: bytes, book: Book) -> None:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        defects = Defects()
        record = decode(line, f"line {number}", defects)
        if defects.found or not isinstance(record, dict):
            book.fault(f"line {number} was left out: {defects.found[0].what if defects.found else 'no object'}")
            continue
        node = node_name(record.pop("node", book.context.node), f"superbench: line {number}")
        for name, value in record.items():
            if not isinstance(value, str) and (found := number_in(value)) is not None:
                _metric(name, found, node, book)


def _metric(name: str, value: float, node: str, book: Book) -> None:
    match = _RANKED.fullmatch(name)
    if match is None or name.startswith("monitor/"):
        return
    metric, rank = match["metric"], match["rank"]
    device = book.at(node, int(rank)) if rank else None
    if metric.endswith("return_code"):
        book.check(
            metric, "pass" if value == 0 else "fail", device, f"return code {value:.0f} on node {plain(node, 80)}"
        )
        return
    unit = next((unit for pattern, unit in _UNITS if pattern.search(metric)), None)
    seconds = seconds_of(value, unit) if unit else None
    if seconds is not None:
        devices = book.of_node(node) if rank is None else [device] if device else []
        book.run(metric, devices, "node", seconds, book.context.measured_at)
