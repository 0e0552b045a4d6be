"""Keys of pal.yaml that describe applications. In: nothing. Out: `apps` and `patterns`, an entry each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pal_slurm.config.section import Section, why
from pal_slurm.model import App


class CommEntry(Section, frozen=True):
    gpu: Annotated[float, why("Factor when all its GPUs are one.", "factor", ge=1, le=100)] = 1.0
    node: Annotated[float, why("Factor when its GPUs are in one node.", "factor", ge=1, le=100)] = 1.0
    unlinked: Annotated[
        float,
        why("Factor on one node when its GPUs are not all linked directly, if more than node.", "factor", ge=1, le=100),
    ] = 1.0
    rack: Annotated[float, why("Factor when its nodes are in one rack.", "factor", ge=1, le=100)] = 1.0
    cluster: Annotated[float, why("Factor when its nodes are in several racks.", "factor", ge=1, le=100)] = 1.0


class AppEntry(Section, frozen=True):
    cls: Annotated[str, why("Its class.")] = msgspec.field(default="", name="class")
    base: Annotated[
        dict[str, Annotated[float, msgspec.Meta(gt=0, le=1e6)]],
        why("Seconds per step on a median GPU of each model; none: learned, as far as it was seen.", "s"),
    ] = msgspec.field(default_factory=dict)
    comm: Annotated[CommEntry, why("What distance between its GPUs costs it: a factor on the step time.")] = (
        msgspec.field(default_factory=CommEntry)
    )

    def app(self, name: str, default_class: str) -> App:
        comm = (self.comm.gpu, self.comm.node, self.comm.rack, self.comm.cluster)
        return App(name, self.cls or default_class, dict(self.base), comm, max(self.comm.unlinked, self.comm.node))


class PatternEntry(Section, frozen=True):
    """At least one of `tag`, `job_name` and `script`; all that are given must fit."""

    app: Annotated[str, why("The application that such jobs run.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")]
    tag: Annotated[str, why("Pattern of a tag that nobody described.")] = ""
    job_name: Annotated[str, why("Pattern of the job's name.")] = ""
    script: Annotated[str, why("Pattern of the batch script's path.")] = ""
