"""The keys of pal.yaml that are about moving running jobs, and excluding nodes. In: nothing. Out: sections."""

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
    margin: Annotated[
        float, why("A move must bring so many times what it costs, beyond what earlier ones fell short.", ge=1, le=100)
    ] = 2.0
    first_s: Annotated[float, why("A job is left alone for so long after each start.", "s", ge=0, le=86_400)] = 300.0
    last_s: Annotated[float, why("And for so long before its time limit.", "s", ge=0, le=86_400)] = 900.0
    per_job: Annotated[int, why("Moves of one job in a day.", ge=0, le=1000)] = 4
    per_user: Annotated[int, why("Moves of one user's jobs in an hour.", ge=0, le=10_000)] = 20
    per_cluster: Annotated[int, why("Moves of all jobs in an hour.", ge=0, le=100_000)] = 60
    at_once: Annotated[int, why("Moves that go on at a time.", ge=1, le=1000)] = 8
    fence: Annotated[
        bool,
        why(
            "A short reservation keeps jobs that wait without a lease from the GPUs of two that exchange theirs, or of "
            "one that makes room; without it nobody is moved while such a job waits."
        ),
    ] = True
    share: Annotated[
        float, why("Most of all GPUs' time that moves may lose, over the last hour.", "share", ge=0, le=0.5)
    ] = 0.02
    cost_s: Annotated[
        float, why("What a restart costs, until it was measured for the application.", "s", ge=1, le=86_400)
    ] = 60.0
    large_cost_s: Annotated[float, why("The same of jobs with `large_gpus` or more.", "s", ge=1, le=86_400)] = 300.0
    large_gpus: Annotated[int, why("From so many GPUs on a job counts as large.", ge=2, le=100_000)] = 16


class ExcludeSection(Section, frozen=True):
    worse: Annotated[
        float,
        why("A node is excluded that is slower by so much for a job than half of its nodes.", "share", ge=0.01, le=10),
    ] = 0.1
    most_wait_s: Annotated[
        float,
        why("No job declines a slow node for longer, nor for longer than that would cost it.", "s", ge=0, le=600),
    ] = 300.0
