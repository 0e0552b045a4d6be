"""Gavel's job sequences: TSV with arrival_s, model, scale_factor, total_steps, v100_duration_s; or its .trace files.

In: either, and for .trace files simulation_throughputs.json (steps/s by GPU model). Out: a Workload. With that table
distance costs nothing more: what it says of several GPUs was measured with the network between them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pal_slurm.errors import BadInput
from pal_slurm.model import App, JobKind, Sharers, Sharing
from pal_slurm.sim.traces.jobs import limit
from pal_slurm.sim.traces.reading import AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload

COLUMNS = ("job_id", "arrival_s", "model", "scale_factor", "total_steps", "v100_duration_s")
# a .trace file has no header; these are its columns
TRACE = {
    name: i
    for i, name in enumerate(
        ("model", "command", "directory", "steps_arg", "needs_data", "total_steps", "scale_factor", "priority", "slo")
    )
} | {"arrival_s": 9}
KEY = re.compile(r"\('(?P<model>[^']+)', (?P<scale>[0-9]{1,6})\)")
MOST_THROUGHPUT = 1e12  # steps a second

Speeds = dict[tuple[str, int], dict[str, float]]  # (model, GPUs) -> GPU model -> seconds per step


class Gavel:
    def sniff(self, header: str) -> bool:
        fields = header.split("\t")
        return set(COLUMNS) <= set(fields) or (len(fields) >= 10 and "batch size" in fields[0])

    def read(self, table: Table, options: Options) -> Workload:
        speeds = None if options.throughputs is None else read_throughputs(options.throughputs)
        headed = "arrival_s" in table.header().split("\t")
        if not headed and speeds is None:
            raise BadInput(f"{table.path} has no durations; give Gavel's simulation_throughputs.json (--throughputs).")
        shelf = AppShelf(options.comm)
        apps: dict[tuple[str, int], App] = {}
        cls = options.default_class

        def parse(row: Row) -> Work:
            model, gpus = row.text("model"), row.whole("scale_factor", least=1)
            steps = row.number("total_steps", above=0)
            if speeds is None:
                app = shelf.get(model, cls, row.number("v100_duration_s", above=0) / steps)
            elif (base := speeds.get((model, gpus))) is None:
                raise row.error("model", f"{model[:60]!r} on {gpus} GPUs has no throughput in {options.throughputs}")
            else:
                app = apps.setdefault((model, gpus), App(model, cls, base))
            return Work(
                id=row.whole("job_id") if headed else row.line - 1,
                submit=row.number("arrival_s"),
                gpus=gpus,
                steps=steps,
                app=app,
                limit_s=limit(options, steps * max(app.base.values())),
                line=row.line,
            )

        at = table.columns("\t", COLUMNS) if headed else TRACE
        rows = table.rows("\t", at, header=headed)
        return workload(table.each(rows, parse), Source(table.path, "scale_factor")).told(table.skipped, table.notes)


def read_throughputs(path: Path) -> Speeds:
    """Seconds per step of every job type alone on each GPU model; a throughput of 0 means that it can't run there."""
    speeds: Speeds = {}
    for gpu_model, kind, alone, _ in _entries(path):
        if alone > 0:
            speeds.setdefault((kind.app, kind.gpus), {})[gpu_model] = 1.0 / alone
    return speeds


def read_pairs(path: Path) -> Sharing:
    """What the table says of two jobs on the same GPUs; a throughput of 0 means that there is no memory for both."""
    beside: dict[Sharers, float] = {}
    for gpu_model, kind, alone, entry in _entries(path):
        for key, both in entry.items():
            match = KEY.fullmatch(key)
            if match is None:
                continue
            where = f"{path}, {gpu_model}, {kind.app} beside {key[:60]}"
            if not (isinstance(both, list) and len(both) == 2 and all(isinstance(x, int | float) for x in both)):
                raise BadInput(f"{where}: not two throughputs.")
            mine, theirs = both
            if not (0 <= mine < MOST_THROUGHPUT and 0 <= theirs < MOST_THROUGHPUT):
                raise BadInput(f"{where}: a throughput is 0 to {MOST_THROUGHPUT:g}.")
            other = JobKind(match["model"], int(match["scale"]))
            fits = mine > 0 and theirs > 0 and alone > 0
            beside[Sharers(kind, other, gpu_model)] = alone / mine if fits else math.inf
    return Sharing(beside)


def _entries(path: Path) -> Iterator[tuple[str, JobKind, float, dict[str, object]]]:
    """GPU model, job type, its throughput alone, and all that is told of it."""
    try:
        raw = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, dict[str, object]]])
    except (OSError, ValueError, RecursionError, msgspec.DecodeError) as exc:
        raise BadInput(f"{path} is not Gavel's throughput table: {exc}") from exc
    for gpu_model, jobs in raw.items():
        if gpu_model.endswith("_unconsolidated"):
            continue
        for key, entry in jobs.items():
            match = KEY.fullmatch(key)
            alone = entry.get("null")
            if match is None or not isinstance(alone, int | float) or not 0 <= alone < MOST_THROUGHPUT:
                raise BadInput(f"{path}, {gpu_model}, {key[:60]}: not a job type with a throughput of its own.")
            yield gpu_model, JobKind(match["model"], int(match["scale"])), float(alone), entry


register("gavel", Gavel())
