"""The keys of pal.yaml that are about measuring the GPUs. In: nothing. Out: `ProfileSection`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pal_slurm.config.section import Section, why


class ProfileSection(Section, frozen=True):
    spool: Annotated[
        str,
        why("Directory that nodes and this host share: documents of profile jobs and of users' jobs; empty: none."),
    ] = ""
    logs: Annotated[
        str,
        why(
            "Directory that nodes and this host share and nobody but pald's user can write: what profile jobs print; "
            "empty: it is not kept."
        ),
    ] = ""
    command: Annotated[
        str,
        why(
            "What a profile job runs; it writes one document into {spool}, which is the spool. Without that word what "
            "it prints is the document.",
            min_length=1,
        ),
    ] = "pal-probe bench -k resnet@A -k transformer@B -k pagerank@C -o {spool}/"
    kernels: Annotated[
        dict[str, str], why("Class that a kernel measures, where neither its document nor apps says.")
    ] = msgspec.field(default_factory=lambda: {"resnet": "A", "transformer": "B", "pagerank": "C"})
    partition: Annotated[str, why("Partition of profile jobs; empty: Slurm's default.")] = ""
    qos: Annotated[str, why("QOS of profile jobs: a preemptable one, where the site has it. Empty: none.")] = ""
    account: Annotated[str, why("Account of profile jobs; empty: Slurm's default.")] = ""
    minutes: Annotated[float, why("Time limit of a profile job.", "min", ge=1, le=1440)] = 60.0
    max_parallel: Annotated[
        int, why("Profile jobs at a time: a fleet at full power heats its room.", ge=1, le=10_000)
    ] = 16
    give_way: Annotated[
        bool, why("Cancel profile jobs when a waiting job could start in their place; they are done again later.")
    ] = True
