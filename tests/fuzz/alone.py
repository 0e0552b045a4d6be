"""The same world without pald. In: a script, what users and nodes did in its history. Out: first starts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.fuzz import users
from tests.fuzz.history import History, Name, NodeSet, Part, Started, Trouble, UserDid
from tests.fuzz.script import Script
from tests.fuzz.seen import START, Overheard, SeenController
from tests.fuzz.world import MOST_S, SETUP, machine


def lived_alone(script: Script, lived: History) -> dict[Name, Started]:
    """The first start of each job and task."""
    names = list(lived.nodes)
    setup = replace(SETUP, release=f"{script['release']}.5")
    c = SeenController(machine(script), {"gpu": names, "rest": names[1:]}, setup, START)
    c.heard = heard = Overheard()
    numbers: dict[int, int] = {}

    def submit(line: int) -> None:
        numbers[line] = users.submit(c, script["release"], line, script.jobs[line], heard.lines)

    def user(event: UserDid) -> None:
        if event.line in numbers:
            users.did(c, numbers[event.line], event.line, event.what, event.words)

    for line, job in enumerate(script.jobs):
        c.at(START + job.at, partial(submit, line))
    for event in lived.events:
        if isinstance(event, UserDid):
            c.at(START + event.at, partial(user, event))
        elif isinstance(event, NodeSet):
            c.at(START + event.at, partial(c.set_node, event.node, event.state))
        elif isinstance(event, Trouble) and event.what == "slurmctld":
            c.at(START + event.at, partial(setattr, c, "answers", False))
            c.at(START + event.until, c.restart)
    c.run_until(START + lived.mended + 1.0)
    while c.now < START + lived.mended + MOST_S and (c.pending or c.running):
        c.run_until(c.now + 20.0)
    return first_starts(heard)


def first_starts(heard: Overheard) -> dict[Name, Started]:
    found: dict[Name, Started] = {}
    for event in heard.events:
        if isinstance(event, Started):
            found.setdefault(event.record.job, event)
    return found


def places(starts: dict[Name, Started]) -> dict[Name, tuple[Part, ...]]:
    return {name: start.parts for name, start in starts.items()}
