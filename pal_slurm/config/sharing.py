"""The keys of pal.yaml that are about two jobs on one GPU. In: nothing. Out: `SharingSection`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Annotated

import msgspec

from pal_slurm.config.section import Section, why
from pal_slurm.model import JobKind, Sharers

_Times = Annotated[float, msgspec.Meta(ge=1, le=100)]
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z"


class PairEntry(Section, frozen=True):
    """Two applications on one GPU, both directions."""

    app: Annotated[str, why("An application.", pattern=_NAME)]
    beside: Annotated[str, why("The other one; also the same.", pattern=_NAME)]
    model: Annotated[str, why("A GPU model; empty: all.")] = ""
    factor: Annotated[_Times | None, why("How many times as long a step of `app` takes beside `beside`.", "factor")] = (
        None
    )
    back: Annotated[_Times | None, why("How many times as long a step of `beside` takes beside `app`.", "factor")] = (
        None
    )
    fits: Annotated[bool, why("false: there is no memory for both, or they must not meet.")] = True
    measure: Annotated[
        bool,
        why("true: there is memory for both, and their jobs are to show what it costs: one couple of an owner's."),
    ] = False

    def told(self, models: Sequence[str]) -> Mapping[Sharers, float | None]:
        """None: to be measured."""
        one, other = JobKind(self.app, 1), JobKind(self.beside, 1)
        found: dict[Sharers, float | None] = {}
        for model in (self.model,) if self.model else models:
            found[Sharers(one, other, model)] = None if self.measure else self.factor if self.fits else inf
            found[Sharers(other, one, model)] = None if self.measure else self.back if self.fits else inf
        return found


class SharingSection(Section, frozen=True):
    enabled: Annotated[
        bool,
        why(
            "Jobs that said pal:share may have a GPU together with another of their account (of their user, without "
            "accounts), where that is known to pay. Needs shards in gres.conf and pal's task prolog on the nodes."
        ),
    ] = False
    pairs: Annotated[
        tuple[PairEntry, ...],
        why(
            "What two applications on one GPU cost each other, as {app: net, beside: bert, factor: 1.3, back: 1.2}; "
            "also model, fits: false, or measure: true. What is told stands, whatever jobs show."
        ),
    ] = ()
    pairs_file: Annotated[
        str,
        why("The same as a table of throughputs, alone and of two (Gavel's JSON); `pairs` wins over it. Empty: none."),
    ] = ""
    estimate: Annotated[
        bool,
        why(
            "Pairs that nobody measured are estimated from the others and tried; a pair that does not fit can end jobs."
        ),
    ] = False
