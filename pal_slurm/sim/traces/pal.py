"""The blox-pal traces: job_id,num_gpus,submit_time,duration,model, where `duration` is iterations.

In: a CSV of hal-uw/blox-pal. Out: a Workload.
"""

from __future__ import annotations

from collections.abc import Mapping

from pal_slurm.model import App, Apps
from pal_slurm.sim.traces.jobs import limit
from pal_slurm.sim.traces.reading import AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload

COLUMNS = ("job_id", "num_gpus", "submit_time", "duration", "model")

# seconds per iteration and class of each model, as the artifact has them in workload.py
MODELS: Mapping[str, tuple[float, str]] = {
    "bert": (0.179, "B"),
    "dcgan": (0.0469266931, "B"),
    "gpt2": (3.5714, "B"),
    "pointnet": (0.28125, "D"),
    "resnet50": (0.17540429367763434, "A"),
    "vgg19": (0.300610341, "C"),
}
PUBLISHED = Apps({name: App(name, cls) for name, (_, cls) in MODELS.items()})


class Pal:
    def sniff(self, header: str) -> bool:
        return {"num_gpus", "submit_time", "duration", "model"} <= set(header.split(","))

    def read(self, table: Table, options: Options) -> Workload:
        shelf = AppShelf(options.comm)

        def parse(row: Row) -> Work:
            model = row.text("model").lower()
            if model not in MODELS:
                raise row.error("model", f"{model[:40]!r} is none of {', '.join(MODELS)}")
            s_per_step, cls = MODELS[model]
            steps = row.number("duration", above=0)
            return Work(
                id=row.whole("job_id"),
                submit=row.moment("submit_time"),
                gpus=row.whole("num_gpus", least=1),
                steps=steps,
                app=shelf.get(model, cls, s_per_step),
                limit_s=limit(options, row.ran("duration", steps * s_per_step)),
                line=row.line,
            )

        at = table.columns(",", COLUMNS)
        source = Source(table.path, "num_gpus")
        return workload(table.each(table.rows(",", at), parse), source).told(table.skipped, table.notes)


register("pal", Pal())
