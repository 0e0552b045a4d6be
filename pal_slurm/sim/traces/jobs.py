"""The plain format: job_id,submit_s,gpus,iterations,s_per_iteration,class. In: a CSV. Out: a Workload."""

from __future__ import annotations

from pal_slurm.sim.traces.reading import AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload

COLUMNS = ("job_id", "submit_s", "gpus", "iterations", "s_per_iteration", "class")


class Jobs:
    def sniff(self, header: str) -> bool:
        return {"submit_s", "iterations", "s_per_iteration"} <= set(header.split(","))

    def read(self, table: Table, options: Options) -> Workload:
        shelf = AppShelf(options.comm)

        def parse(row: Row) -> Work:
            cls = row.text("class").removeprefix("class").upper()
            s_per_step = row.number("s_per_iteration", above=0)
            steps = row.number("iterations", above=0)
            ran_s = row.ran("iterations x s_per_iteration", steps * s_per_step)
            return Work(
                id=row.whole("job_id"),
                submit=row.moment("submit_s"),
                gpus=row.whole("gpus", least=1),
                steps=steps,
                app=shelf.get(cls, cls, s_per_step),
                limit_s=limit(options, ran_s),
                line=row.line,
            )

        at = table.columns(",", COLUMNS)
        source = Source(table.path, "gpus")
        return workload(table.each(table.rows(",", at), parse), source).told(table.skipped, table.notes)


def limit(options: Options, ideal_s: float) -> float | None:
    """The time limit of a job in a trace that names none."""
    return None if options.limit_factor is None else options.limit_factor * ideal_s


register("jobs", Jobs())
