"""The keys of pal.yaml that are about moving running jobs. In: nothing. Out: `MovesSection`."""

from __future__ import annotations

from typing import Annotated, Literal

from pal_slurm.config.section import Section, why


class MovesSection(Section, frozen=True):
    mode: Annotated[
        Literal["off", "asked", "proven"],
        why(
            "Whose running jobs may be moved: nobody's; those that said pal:move, or whose QOS or partition is named "
            "below; proven: also those with --requeue whose user and application were seen to resume after requeues. "
            "pal:stay and --no-requeue always win."
        ),
    ] = "off"
    qos: Annotated[tuple[str, ...], why("QOS whose jobs may be moved without a word of theirs.")] = ()
    partitions: Annotated[
        tuple[str, ...], why("The same of partitions; a job that names several must name none but these.")
    ] = ()
