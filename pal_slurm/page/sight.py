"""All that a page is made of, at one moment. In: the present, the fleet's scores, the ledger's end. Out: look-ups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pal_slurm.model import Intent
from pal_slurm.page.viewer import Viewer
from pal_slurm.report.figures import Gpu
from pal_slurm.report.gain import GainedShare
from pal_slurm.report.present import NodeNow, Present, RunningNow, WaitingNow, own
from pal_slurm.report.text import Row, natural
from pal_slurm.store.nights import Alert

Place = tuple[str, int]
NOTHING_SEEN = Present(cluster="", taken=0.0, actuator="", policy="")


@dataclass(frozen=True, slots=True)
class Gains:
    since: float
    made_at: float
    share: GainedShare | None
    rows: tuple[Row, ...]  # by class
    shadow: bool  # nothing was placed: what would have been gained


@dataclass(frozen=True, slots=True)
class ScoreMarks:
    """What is known of each GPU."""

    classes: tuple[str, ...] = ()
    gpus: Mapping[Place, Gpu] = field(default_factory=dict)
    share_known: float = 0.0


@dataclass(frozen=True, slots=True)
class Ledgered:
    """What the database says of pald."""

    edits: tuple[Intent, ...] = ()  # newest first
    open: int = 0
    leader: str = ""  # empty: no pald is at work
    paused: str = ""
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, eq=False)
class Sight:
    number: int = 0  # grows with each change
    present: Present = NOTHING_SEEN
    scores: ScoreMarks = ScoreMarks()
    ledger: Ledgered = Ledgered()
    gains: Gains | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)  # what can't be read, and why

    def seen_by(self, viewer: Viewer) -> Sight:
        """What Slurm's PrivateData leaves of it to him."""
        if viewer.everything or not {"jobs", "nodes"}.intersection(self.present.private):
            return self
        mine = replace(self, present=own(self.present, viewer.sees))
        if "jobs" in self.present.private:
            mine = replace(mine, ledger=replace(mine.ledger, edits=()))
        if "nodes" in self.present.private:  # but those of his own jobs
            held = {place: gpu for place, gpu in self.scores.gpus.items() if viewer.sees(self._holds(place))}
            mine = replace(mine, scores=replace(mine.scores, gpus=held))
        return mine

    def _holds(self, place: Place) -> str:
        return job.user if (job := self.holders.get(place)) is not None else ""

    @cached_property
    def nodes(self) -> list[NodeNow]:
        """By model, then by name, n2 before n10; those that the database knows, where pald sees none."""
        found = self.present.nodes or tuple(_known_nodes(self.scores))
        return sorted(found, key=lambda node: (node.model, natural(node.name)))

    @cached_property
    def by_node(self) -> dict[str, NodeNow]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def holders(self) -> dict[Place, RunningNow]:
        return {
            (node, slot): job
            for job in self.present.running
            for node, slots in zip(job.nodes, job.gpus, strict=False)
            for slot in slots
        }

    @cached_property
    def waiting(self) -> dict[int, tuple[int, WaitingNow]]:
        """By job: its place in the queue, from 1."""
        return {job.job: (place, job) for place, job in enumerate(self.present.waiting, 1)}

    @cached_property
    def running(self) -> dict[int, list[RunningNow]]:
        """By job, and by array: several tasks of one id may run."""
        found: dict[int, list[RunningNow]] = {}
        for job in self.present.running:
            found.setdefault(job.job, []).append(job)
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """The figures on top; the page's script puts newer ones in their places."""
        ok = sum(node.exists.bit_count() for node in self.nodes if node.ok)
        return {
            "gpus": sum(node.exists.bit_count() for node in self.nodes),
            "held": len(self.holders),
            "free": sum(node.free.bit_count() for node in self.nodes if node.ok),
            "away": sum(node.exists.bit_count() for node in self.nodes) - ok,
            "running": len(self.present.running),
            "waiting": len(self.present.waiting),
            "leased": sum(job.lease is not None for job in self.present.waiting),
        }

    @property
    def now(self) -> float:
        """Ages grow also when nothing new is seen."""
        return time.time()

    @property
    def age(self) -> float | None:
        """How old the present is; None: there is none."""
        return max(0.0, self.now - self.present.ended) if self.present.ended else None

    @property
    def alive(self) -> bool:
        """pald's last cycle ended a moment ago."""
        return self.age is not None and self.age < 15.0 + 3 * self.present.interval_s


def _known_nodes(scores: ScoreMarks) -> list[NodeNow]:
    bits: dict[str, int] = {}
    models: dict[str, str] = {}
    for (node, slot), gpu in scores.gpus.items():
        bits[node] = bits.get(node, 0) | 1 << slot
        models.setdefault(node, gpu.model)
    return [NodeNow(node, True, models[node], mask, 0) for node, mask in bits.items()]
