"""The keys of pal.yaml that are about two jobs on one GPU. In: nothing. Out: `SharingSection`."""

from __future__ import annotations

from typing import Annotated

from pal_slurm.config.section import Section, why


class SharingSection(Section, frozen=True):
    enabled: Annotated[
        bool,
        why(
            "Jobs that said pal:share may have a GPU together with another of their account (of their user, without "
            "accounts), where that is known to pay. Needs shards in gres.conf and pal's task prolog on the nodes."
        ),
    ] = False
