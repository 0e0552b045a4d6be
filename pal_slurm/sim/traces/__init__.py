"""Trace readers, found by name. In: a file as its publisher or `sacct` writes it. Out: a Workload.

Adding a format is adding one module here that calls `register`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pal_slurm.sim.traces.reading import FORMATS, Options, Table, register
from pal_slurm.sim.workload import Workload

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["FORMATS", "Options", "Table", "read_trace", "register"]


def read_trace(path: Path, fmt: str = "auto", options: Options | None = None) -> Workload:
    """The workload in a trace file; `auto` tells the format from the first line."""
    with Table(path) as table:
        name = table.sniff() if fmt == "auto" else fmt
        return FORMATS[name].read(table, options or Options())
