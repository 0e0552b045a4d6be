"""What distance costs applications, from data. In: `flat`, `1/1/1.2/1.7`, FILE:NAME[,NAME]. Out: a mix for a workload.

Four kinds of file, told apart by their header; NAME may hold `*`:

- `name,gpu,node,rack,cluster`: our own table; the costs as they are.
- `model,placement,compute_ms,exposed_comm_ms,slowdown`: ArtISt-sim's costs. One machine, two machines of one rack, two
  racks of one machine each.
- `gpu,job_type,gpus,...,slowdown`: Gavel's throughputs apart over those together; names as `v100/LM`, the median over
  batch sizes and numbers of GPUs. Less than 1 is noise. Nothing tells racks from the cluster: both cost the same.
- `cluster,model,n,a0,b0/sample,...,gamma`: fits of Pollux' measurements; names as `aws/bert@7`, 7 samples per GPU and
  step. 4 GPUs on a node, 8 over nodes; beyond a rack the network is taken to be `OVERSUBSCRIBED` times as slow, which
  nobody measured.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import App
from pal_slurm.sim.workload import Work, Workload, drawing

Costs = tuple[float, float, float, float]
FLAT: Costs = (1.0, 1.0, 1.0, 1.0)
OVERSUBSCRIBED = 2.0
MOST = 10_000.0
TIERS = ("gpu", "node", "rack", "cluster")
Rows = Sequence["CostRow"]


@dataclass(frozen=True, slots=True)
class CostMix:
    """Jobs of several GPUs draw one of these each, by the seed."""

    costs: tuple[tuple[str, Costs], ...]

    def given(self, load: Workload, seed: int) -> Workload:
        made: dict[tuple[int, int], App] = {}

        def told(works: tuple[Work, ...], turn: int) -> tuple[Work, ...]:
            draws = drawing(seed, turn).integers(len(self.costs), size=len(works)).tolist()
            return tuple(self._given(work, draw, made) for work, draw in zip(works, draws, strict=True))

        return load.changed(told)

    def _given(self, work: Work, draw: int, made: dict[tuple[int, int], App]) -> Work:
        if work.gpus == 1:  # they stay one kind: distance is nothing to them
            return work
        name, comm = self.costs[draw]
        key = (id(work.app), draw)
        if key not in made:
            made[key] = replace(work.app, name=f"{work.app.name}/{name}", comm=comm)
        return replace(work, app=made[key])


class CostRow:
    """One line, with errors that name it and the field."""

    def __init__(self, path: Path, line: int, fields: Mapping[str, str]) -> None:
        self._where, self.fields = f"{path}, line {line}", fields

    def text(self, field: str) -> str:
        return (self.fields.get(field) or "").strip()

    def number(self, field: str, least: float, most: float = MOST) -> float:
        raw = self.text(field)
        try:
            value = float(raw if raw.isascii() and "_" not in raw else "")
        except ValueError:
            raise self.error(field, f"{raw[:40]!r} is not a number") from None
        if not least <= value <= most:  # also NaN
            raise self.error(field, f"{raw} is not from {least:g} to {most:g}")
        return value

    def error(self, field: str, said: str) -> BadInput:
        return BadInput(f"{self._where}, {field}: {said}.")


def parse_costs(text: str) -> CostMix:
    if text == "flat":
        return CostMix((("flat", FLAT),))
    if re.fullmatch(r"[0-9.]+(/[0-9.]+){3}", text):
        row = CostRow(Path("--comm"), 1, dict(zip(TIERS, text.split("/"), strict=True)))
        return CostMix(((text, _own_row(row)),))
    name, _, wanted = text.rpartition(":")
    if not name or not wanted:
        raise BadInput(f"--comm {text!r}: write flat, GPU/NODE/RACK/CLUSTER as 1/1/1.2/1.7, or FILE:NAME[,NAME].")
    path = Path(name)
    choose, rows = _read(path)
    found: dict[str, Costs] = {}
    for pattern in wanted.split(","):
        those = choose(rows, pattern)
        if not those:
            raise BadInput(f"{path}: nothing is named {pattern[:60]!r}; there are {_names(choose, rows)}.")
        found |= those
    return CostMix(tuple(found.items()))


def parse_uplinks(text: str) -> tuple[float, ...]:
    """`2` or `2/8`: jobs that a rack's uplink, a group's serves at full speed; none: links are nobody's bottleneck."""
    if not text:
        return ()
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?(/[0-9]{1,9}(\.[0-9]{1,9})?)*", text):
        raise BadInput(f"--uplinks {text[:60]!r}: jobs at full speed per rack's uplink, then per group's, as 2 or 2/8.")
    found = tuple(map(float, text.split("/")))
    if min(found) <= 0.0:
        raise BadInput(f"--uplinks {text}: a link that serves nobody leaves jobs without an end.")
    return found


def _read(path: Path) -> tuple[Callable[[Rows, str], dict[str, Costs]], list[CostRow]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} can't be read: {error}") from error
    reader = csv.DictReader(lines)
    rows = [CostRow(path, reader.line_num, fields) for fields in reader]
    header = set(reader.fieldnames or ())
    for needed, choose in KINDS:
        if set(needed) <= header:
            return choose, rows
    kinds = "; ".join(",".join(needed) for needed, _ in KINDS)
    raise BadInput(f"{path}, line 1: no table of costs; the columns are one of: {kinds}.")


def _names(choose: Callable[[Rows, str], dict[str, Costs]], rows: Rows) -> str:
    return ", ".join(choose(rows, "*@1" if choose is _fits else "*"))[:300] or "none"


def _own(rows: Rows, pattern: str) -> dict[str, Costs]:
    return {row.text("name"): _own_row(row) for row in rows if fnmatchcase(row.text("name"), pattern)}


def _own_row(row: CostRow) -> Costs:
    gpu, node, rack, cluster = (row.number(tier, least=1.0) for tier in TIERS)
    for field, near, far in zip(TIERS[1:], (gpu, node, rack), (node, rack, cluster), strict=True):
        if far < near:
            raise row.error(field, f"{far:g} is less than {near:g}: distance can't make it faster")
    return gpu, node, rack, cluster


_PLACEMENTS = ("8=1mach(4x2)", "16=2mach", "16=2racks(8+8)")


def _artist(rows: Rows, pattern: str) -> dict[str, Costs]:
    slow: dict[str, dict[str, float]] = {}
    for row in rows:
        if fnmatchcase(row.text("model"), pattern):
            slow.setdefault(row.text("model"), {})[row.text("placement")] = row.number("slowdown", least=0.0)
    whole = {model: found for model, found in slow.items() if all(place in found for place in _PLACEMENTS)}
    return {model: _ordered(1.0, *(found[place] for place in _PLACEMENTS)) for model, found in whole.items()}


def _gavel(rows: Rows, pattern: str) -> dict[str, Costs]:
    slow: dict[str, list[float]] = {}
    for row in rows:
        name = f"{row.text('gpu')}/{row.text('job_type').partition(' (')[0]}"
        if fnmatchcase(name, pattern):
            slow.setdefault(name, []).append(row.number("slowdown", least=0.0))
    return {name: _ordered(1.0, 1.0, statistics.median(all_), 0.0) for name, all_ in slow.items()}


def _fits(rows: Rows, pattern: str) -> dict[str, Costs]:
    wanted, _, samples = pattern.partition("@")
    batch = CostRow(Path(f"--comm {pattern[:60]}"), 1, {"samples": samples}).number("samples", least=0.1)
    found = {}
    for row in rows:
        name = f"{row.text('cluster')}/{row.text('model')}"
        if fnmatchcase(name, wanted):
            alone = row.number("a0", least=1e-9) + row.number("b0/sample", least=0.0) * batch
            node = row.number("al", least=0.0) + 2 * row.number("bl", least=0.0)
            net = row.number("an", least=0.0) + 6 * row.number("bn", least=0.0)
            g = row.number("gamma", least=1.0, most=100.0)
            parts = ((1.0 + (sync / alone) ** g) ** (1 / g) for sync in (node, net, OVERSUBSCRIBED * net))
            found[f"{name}@{samples}"] = _ordered(1.0, *parts)
    return found


def _ordered(*costs: float) -> Costs:
    """Measured costs: what is nearer is taken for no slower."""
    gpu, node, rack, cluster = np.maximum.accumulate(np.maximum(costs, 1.0)).tolist()
    return gpu, node, rack, cluster


KINDS: tuple[tuple[tuple[str, ...], Callable[[Rows, str], dict[str, Costs]]], ...] = (
    (("name", *TIERS), _own),
    (("model", "placement", "slowdown"), _artist),
    (("gpu", "job_type", "gpus", "slowdown"), _gavel),
    (("cluster", "model", "a0", "b0/sample", "al", "bl", "an", "bn", "gamma"), _fits),
)
