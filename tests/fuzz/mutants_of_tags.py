"""Mutants of what tags count for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.learning.knowledge as knowledge
from pal_slurm.model import App, Apps
from pal_slurm.policy.waiters import Waiters
from pal_slurm.store.samples import JobSample
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


@mutant("a tag is believed before its user's jobs have shown its class")
def tags_believed() -> Patches:
    return [(knowledge, "with_doubts", lambda apps, *rest: apps)]


@mutant("an unproven tag counts among the classes that wait")
def tags_weigh() -> Patches:
    return [(App, "proven", property(lambda app: app.cls))]


@mutant("an unproven tag takes the GPUs that who has shown his class waits for")
def tags_choose_first() -> Patches:
    return [(Waiters, "_for_now", lambda self, claim: claim)]


@mutant("what one user's jobs have shown proves everybody's tags of that name")
def names_prove() -> Patches:
    doubts = was(knowledge, "with_doubts")

    def proven(apps: Apps, shown: Mapping[tuple[str, str], str], classes: Sequence[str]) -> Apps:
        made: Apps = doubts(apps, shown, classes)
        names = {name for _, name in shown}
        return replace(made, known={n: apps.known[n] if n in names else app for n, app in made.known.items()})

    return [(knowledge, "with_doubts", proven)]


@mutant("files that a user wrote prove his tags")
def own_word_proves() -> Patches:
    return [(JobSample, "measured", property(lambda sample: True))]
