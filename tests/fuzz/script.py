"""A drawn world as data. In: text, one line an item. Out: the same as objects; either way, without loss.

    cluster nodes=3 release=26.05              what the cluster and pald's own pal.yaml are; see SETTINGS
    12.5 job runs=60 user=u1 | --gres=gpu:2    somebody submits it; manners=slow: see users.py
    30 node n2 DOWN                            something happens then
    31 on ledger.done+1 kill 10                or when pald, after that time, comes by there for the second time

What can happen: `troubles.py`; where pald comes by: POINTS.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# A question to slurmctld before it is asked, and when it is answered; one update; a transaction when it begins, before
# its commit, after its commit; a read.
POINTS = (
    "snapshot.asked", "snapshot.answered", "passes.asked", "apply.asked", "apply.answered", "update",
    "write.begun", "write.done", "write.committed", "ledger.begun", "ledger.done", "ledger.committed", "read",
)  # fmt: skip
SETTINGS = {
    "nodes": "3",
    "release": "26.05",
    "actuator": "pin",
    "canary": "",  # the partition that pald may place jobs of
    "edits_per_s": "20",
    "read_s": "0.005",  # what slurmctld takes for a question
    "scores": "none",  # none, good, absurd, classes, measured, lied: what the database holds of them
    "deadman": "yes",  # whether the dead man's timer runs
    "models": "a100",  # of the GPUs of each node; one for all, or one for each
    "shards": "0",  # of each GPU
    "sharing": "no",  # sharing.enabled
    "entitlement": "",  # policy.entitlement
    "shares": "even",  # what slurmdbd says of who is to get how much: dues.py
    "claims": "no",  # whether one user claims that all his jobs are late
    "hints": "plain",  # forged: users have shown classes, and one of them forges tags: hints.py
    "moves": "offered",  # with the actuator `move`, to where: as offered in the script, or pald's own choice
}


def _number(value: float) -> str:
    """As short as loses nothing."""
    return short if float(short := f"{value:g}") == value else repr(value)


@dataclass(frozen=True)
class Submission:
    at: float
    runs: float
    user: str
    options: tuple[str, ...]
    manners: str = ""  # how it takes a signal, or its end

    def __str__(self) -> str:
        manners = f" manners={shlex.quote(self.manners)}" if self.manners else ""
        whose = f"runs={_number(self.runs)} user={shlex.quote(self.user)}{manners}"
        return f"{_number(self.at)} job {whose} | {shlex.join(self.options)}"


@dataclass(frozen=True)
class Happening:
    at: float
    what: str
    words: tuple[str, ...] = ()
    point: str = ""  # none: at that very time
    skip: int = 0

    def __str__(self) -> str:
        where = f"on {self.point}+{self.skip} " if self.point else ""
        return f"{_number(self.at)} {where}{shlex.join((self.what, *self.words))}"


@dataclass(frozen=True)
class Script:
    jobs: tuple[Submission, ...]
    happenings: tuple[Happening, ...] = ()
    setting: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.setting.get(name, SETTINGS[name])

    @property
    def last(self) -> float:
        """When all has been submitted, and nothing new goes wrong."""
        return max([*(job.at for job in self.jobs), *(item.at for item in self.happenings)], default=0.0)

    def __str__(self) -> str:
        told = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.setting.items())
        return "\n".join([f"cluster {told}".rstrip(), *map(str, self.jobs), *map(str, self.happenings), ""])


class BadScript(Exception):
    pass


def read(text: str) -> Script:
    setting: dict[str, str] = {}
    jobs: list[Submission] = []
    happenings: list[Happening] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line.partition("#")[0] if line.startswith("#") else line)
            if not words:
                continue
            if words[0] == "cluster":
                setting.update(_pairs(words[1:]))
            elif words[1] == "job":
                jobs.append(_submission(words))
            else:
                happenings.append(_happening(words))
        except (ValueError, IndexError, KeyError) as error:
            raise BadScript(f"line {number}: {line!r}: {error}") from error
    if unknown := setting.keys() - SETTINGS.keys():
        raise BadScript(f"cluster: no such setting: {', '.join(sorted(unknown))}")
    return Script(tuple(jobs), tuple(happenings), setting)


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def _submission(words: list[str]) -> Submission:
    bar = words.index("|")
    facts = dict(_pairs(words[2:bar]))
    options = tuple(words[bar + 1 :])
    return Submission(_seconds(words[0]), _seconds(facts["runs"]), facts["user"], options, facts.get("manners", ""))


def _seconds(word: str) -> float:
    if math.isfinite(value := float(word)):
        return value
    raise ValueError(f"{word} is no time")


def _happening(words: list[str]) -> Happening:
    if words[1] != "on":
        return Happening(_seconds(words[0]), words[1], tuple(words[2:]))
    point, _, skip = words[2].partition("+")
    if point not in POINTS:
        raise ValueError(f"pald comes by no {point}")
    return Happening(_seconds(words[0]), words[3], tuple(words[4:]), point, int(skip or 0))
