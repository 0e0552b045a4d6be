"""Gavel's job sequences: TSV with arrival_s, model, scale_factor, total_steps, v100_duration_s; or its .trace files.

In: either, and for .trace files simulation_throughputs.json (steps/s by GPU model). Out: a Workload. With that table
distance costs nothing more: what it says of several GPUs was measured with the network between them.
"""

from __future__ import annotations

from pathlib import Path

from pal_slurm.config.pair_file import PairFile
from pal_slurm.errors import BadInput
from pal_slurm.model import App, Sharing
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
                submit=row.moment("arrival_s"),
                gpus=gpus,
                steps=steps,
                app=app,
                limit_s=limit(options, row.ran("total_steps", steps * max(app.base.values()))),
                line=row.line,
            )

        at = table.columns("\t", COLUMNS) if headed else TRACE
        rows = table.rows("\t", at, header=headed)
        return workload(table.each(rows, parse), Source(table.path, "scale_factor")).told(table.skipped, table.notes)


def read_throughputs(path: Path) -> Speeds:
    """Seconds per step of every job type alone on each GPU model; a throughput of 0 means that it can't run there."""
    speeds: Speeds = {}
    for told in PairFile(path).alone():
        if told.alone > 0:
            speeds.setdefault((told.kind.app, told.kind.gpus), {})[told.model] = 1.0 / told.alone
    return speeds


def read_pairs(path: Path) -> Sharing:
    """What the table says of two jobs on the same GPUs."""
    return PairFile(path).pairs()


register("gavel", Gavel())
