"""The keys of pal.yaml that are about GPU models. In: nothing. Out: `PoolsSection`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from pal_slurm.config.section import Section, why
from pal_slurm.model import Dearer, PoolRules


class PoolsSection(Section, frozen=True):
    dearer: Annotated[
        Dearer,
        why(
            "Whether a job that names no GPU model may get one that bills more than the cheapest that it could get: "
            "never, only where it says pal:dearer (ask), or always (ok)."
        ),
    ] = "never"
    billing: Annotated[
        dict[
            Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")],
            Annotated[float, msgspec.Meta(ge=0, le=1e6)],
        ],
        why("What a GPU of each model counts for; a weight in its partition's TRESBillingWeights wins over it."),
    ] = msgspec.field(default_factory=dict)
    wait_s: Annotated[
        float,
        why(
            "Most that a job waits for a model that it is owed, or on which it first ran (pal:same), while another is "
            "free. For a faster one it waits only while it would itself be done sooner.",
            "s",
            ge=0,
            le=604_800,
        ),
    ] = 1800.0

    def rules(self) -> PoolRules:
        return PoolRules(self.dearer, dict(self.billing), self.wait_s)
