"""The Philly trace as adaptdl publishes it: timestamp,duration,num_gpus,... In: a flat CSV. Out: a Workload.

It names no applications: every job is of the default class, and its duration is taken for its ideal run time.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pal_slurm.sim.traces.jobs import limit
from pal_slurm.sim.traces.reading import MOST_S, AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload
from pal_slurm.words import digits

COLUMNS = ("timestamp", "duration", "num_gpus")


class Philly:
    def sniff(self, header: str) -> bool:
        return set(COLUMNS) <= set(header.split(","))

    def read(self, table: Table, options: Options) -> Workload:
        cls = options.default_class
        app = AppShelf(options.comm).get("philly", cls, 1.0)

        def parse(row: Row) -> Work | None:
            gpus = row.whole("num_gpus")
            duration = row.number("duration")
            submit = seconds(row, "timestamp")
            if gpus == 0 or duration == 0:
                return None
            row.ran("duration", duration)
            return Work(row.line - 2, submit, gpus, duration, app, limit(options, duration), line=row.line)

        at = table.columns(",", COLUMNS)
        source = Source(table.path, "num_gpus")
        load = workload(table.each(table.rows(",", at), parse), source).told(table.skipped, table.notes)
        return load.from_zero()


def seconds(row: Row, column: str) -> float:
    """A time as ISO text (read as UTC: a trace must not depend on the reader's time zone) or as epoch seconds."""
    raw = row.text(column)
    if digits(raw):
        return row.moment(column)
    try:
        at = datetime.fromisoformat(raw)
    except ValueError:
        raise row.error(column, f"{raw[:40]!r} is not a time") from None
    found = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if found > MOST_S:
        raise row.error(column, f"{raw[:40]!r} lies too far in the future")
    return found


register("philly", Philly())
