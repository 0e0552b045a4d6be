"""A table of throughputs, alone and of two on the same GPUs, as Gavel publishes it. In: JSON. Out: Sharing, speeds.

    {GPU model: {"('APP', GPUS)": {"null": steps/s alone, "('OTHER', GPUS)": [its steps/s, the other's], ...}}}

Both throughputs 0 mean that there is no memory for both. What can't be is refused with its line and place in the table.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pal_slurm.errors import BadInput
from pal_slurm.model import JobKind, Sharers, Sharing

KEY = re.compile(r"\('(?P<model>[^']+)', (?P<scale>[0-9]{1,6})\)")
MOST_THROUGHPUT = 1e12  # steps a second
LEAST, MOST = 0.5, 100.0  # of a factor: nobody runs twice as fast for company, nor waits a hundredfold for it
_BYTE = re.compile(r"\(byte ([0-9]+)\)")


class ToldAlone(NamedTuple):
    """What the table says of one job type on one GPU model."""

    model: str
    kind: JobKind
    key: str
    alone: float
    entry: Mapping[str, object]


class PairFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._text = path.read_bytes()
            self._raw = msgspec.json.decode(self._text, type=dict[str, dict[str, dict[str, Any]]])
        except (OSError, ValueError, RecursionError, msgspec.DecodeError) as exc:
            byte = _BYTE.search(str(exc))
            line = 1 + self._text.count(b"\n", 0, int(byte[1])) if byte else 0
            raise BadInput(f"{path}{f':{line}' if line else ''} is not Gavel's throughput table: {exc}") from exc

    def alone(self) -> Iterator[ToldAlone]:
        """Every job type, with its throughput by itself."""
        for model, jobs in self._raw.items():
            if model.endswith("_unconsolidated"):
                continue
            for key, entry in jobs.items():
                match = KEY.fullmatch(key)
                alone = entry.get("null")
                if match is None or not isinstance(alone, int | float) or isinstance(alone, bool):
                    raise self._wrong((model, key), "not a job type with a throughput of its own.")
                if not 0 <= alone < MOST_THROUGHPUT:
                    raise self._wrong((model, key, "null"), f"a throughput is 0 to {MOST_THROUGHPUT:g}.")
                yield ToldAlone(model, JobKind(match["model"], int(match["scale"])), key, float(alone), entry)

    def pairs(self) -> Sharing:
        """Both directions of every pair."""
        beside: dict[Sharers, float] = {}
        where: dict[Sharers, tuple[str, str, str]] = {}
        for told in self.alone():
            for key, both in told.entry.items():
                match = KEY.fullmatch(key)
                if match is not None:
                    pair = Sharers(told.kind, JobKind(match["model"], int(match["scale"])), told.model)
                    where[pair] = (told.model, told.key, key)
                    beside[pair] = self._factor(told, key, both)
        for pair, place in where.items():
            if Sharers(pair.other, pair.one, pair.model) not in beside:
                raise self._wrong(
                    place, f"one direction only: the table has nothing under {place[2]} beside {place[1]}."
                )
        return Sharing(beside)

    def _factor(self, told: ToldAlone, key: str, both: object) -> float:
        place = (told.model, told.key, key)
        if not (isinstance(both, list) and len(both) == 2 and all(isinstance(x, int | float) for x in both)):
            raise self._wrong(place, "not two throughputs.")
        if not all(0 <= x < MOST_THROUGHPUT for x in both):
            raise self._wrong(place, f"throughputs are 0 to {MOST_THROUGHPUT:g}.")
        mine, theirs = float(both[0]), float(both[1])
        if (mine > 0) != (theirs > 0):
            raise self._wrong(place, f"{mine:g} and {theirs:g}: one runs and the other never; both are 0, or neither.")
        if mine == 0 or told.alone == 0:
            return math.inf
        factor = told.alone / mine
        if not LEAST <= factor <= MOST:
            said = f"a step takes {factor:.3g} times as long as alone; {LEAST:g} to {MOST:g} can be."
            raise self._wrong(place, said)
        return factor

    def _wrong(self, place: tuple[str, ...], said: str) -> BadInput:
        return BadInput(f"{self._path}:{self._line(place)}, {', '.join(name[:60] for name in place)}: {said}")

    def _line(self, place: tuple[str, ...]) -> int:
        """Of the last of these keys, each looked for behind the one before."""
        text, at = self._text.decode(errors="replace"), 0
        for name in place:
            found = re.compile(re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:").search(text, at)
            at = found.start() if found else at
        return text.count("\n", 0, at) + 1
