"""P13: waiting must pay for the job that waits. P5 by size: whose start is late, against the same world without pald.

How fast the bench's GPUs are (scores.py, dues.py) stands here once more. A run time is what jobs of the same user and
name ran, as far as some have ended by then; of others it is the longest that anything seen could make of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median

from tests.fuzz.history import (
    Declined,
    Ended,
    Event,
    Name,
    NodeSet,
    Part,
    Record,
    Requeued,
    Started,
    Stopped,
    Submitted,
)
from tests.fuzz.judge.facts import Facts, Verdict

SLOTS = (1.3, 1.0, 1.1, 0.95)  # of scores `good`
MODELS: Mapping[str, float] = {"a100": 1.0, "v100": 3.0, "h100": 0.5}
GPUS = 4
EDIT_S = 2.0  # what pald's own edit takes
KNOWN = 4  # jobs of a kind that have ended
ERR = 1.6  # an estimate from so few may be so many times too long or too short
UNKNOWN_S = 60.0
TWICE = 2.0
LOOKS_S = 15.0
PASS_S = 12.0
SIZES = ((1, "1"), (4, "2-4"), (8, "5-8"), (16, "9-16"))
READ_SHARE = 0.04  # of slurmctld's time, that pald takes for its looks: a fifth below the 5 % of P8
# Seconds that a start may be later than without pald, beside one run of the longest job of its world
LATE_S: Mapping[str, float] = {"1": 30.0, "2-4": 30.0, "5-8": 30.0, "9-16": 30.0, ">16": 30.0}

Kind = tuple[str, str]
Gpu = tuple[str, int]


class _Seen:
    """What pald's snapshot told: who ran where, who waited, how long others had run."""

    def __init__(self, facts: Facts, event: Declined) -> None:
        self.facts, self.at = facts, event.at
        self.running: dict[Name, Started] = {}
        self.waits: dict[Name, Record] = {}
        self.away: set[str] = set()  # nodes
        self.stopped: set[Name] = set()  # to be moved, and not started since
        self.ran: dict[Kind, list[float]] = defaultdict(list)
        for seen in facts.events[: event.content_n]:
            self._sees(seen)

    def _sees(self, event: Event) -> None:
        if isinstance(event, Submitted):
            self.waits[event.record.job] = event.record
        elif isinstance(event, Started):
            self.running[event.record.job] = event
            self.waits.pop(event.record.job, None)
            self.stopped.discard(event.record.job)
        elif isinstance(event, Stopped) and event.by:
            self.stopped.add(event.job)
        elif isinstance(event, NodeSet):
            (self.away.add if event.state else self.away.discard)(event.node)
        elif isinstance(event, Requeued):
            self.waits[event.job] = event.record
            self.running.pop(event.job, None)
        elif isinstance(event, Ended):
            self.waits.pop(event.job, None)
            self.stopped.discard(event.job)
            start = self.running.pop(event.job, None)
            if start is not None:
                self.ran[kind(self.facts, event.job)].append(event.at - start.at)

    def runs(self, name: Name, limit: int | None) -> tuple[float, float]:
        """The least and the most that it may be taken to run."""
        told = self.ran[kind(self.facts, name)]
        if len(told) >= KNOWN and max(told) <= ERR * min(told):
            return median(told) / ERR, median(told) * ERR
        longest = max((ran for all_of in self.ran.values() for ran in all_of), default=0.0)
        return 0.0, ERR * max(UNKNOWN_S, longest, 60.0 * (limit or 0) if longest else 0.0)

    def promised(self, event: Declined) -> set[Gpu]:
        """GPUs that are free, and kept for those who were stopped to be moved there."""
        targets = (target for target in event.targets if target[0] in self.stopped)
        return {(node, slot) for _, node, slots in targets for slot in slots}

    def soonest(self) -> dict[Gpu, float]:
        """Of each GPU in how many seconds it may be free."""
        found = {(node, slot): 0.0 for node, many in self.facts.history.nodes.items() for slot in range(many)}
        for name, start in self.running.items():
            left = max(0.0, self.runs(name, start.record.limit)[0] - (self.at - start.at))
            found |= {(part.node, slot): left for part in start.parts for slot in part.slots}
        return found


def kind(facts: Facts, name: Name) -> Kind:
    options = facts.history.options[name[0]]
    return facts.history.users[name[0]], options[options.index("-J") + 1] if "-J" in options else ""


def _declines(facts: Facts) -> Iterator[Declined]:
    """Where what GPUs are is known here too, and nothing but the queue has a say."""
    setting = facts.history.setting
    if setting["entitlement"] or setting["hints"] == "forged" or setting["sharing"] == "yes":
        return
    if setting["scores"] in ("none", "good"):
        yield from (event for event in facts.events if isinstance(event, Declined))


def _speeds(facts: Facts) -> dict[Gpu, float]:
    setting, nodes = facts.history.setting, facts.history.nodes
    told = setting["models"].split(",")
    models = [told[min(n, len(told) - 1)] for n in range(len(nodes))]
    base = {node: MODELS[model] if len(set(told)) > 1 else 1.0 for node, model in zip(nodes, models, strict=True)}
    scores = SLOTS if setting["scores"] == "good" else (1.0,) * GPUS
    return {(node, slot): base[node] * scores[slot] for node in nodes for slot in range(GPUS)}


def _gains(facts: Facts, event: Declined) -> tuple[float, float]:
    """What waiting brings at most, and what it brings once the best of it is there: seconds."""
    seen, speeds = _Seen(facts, event), _speeds(facts)
    record = seen.waits.get(event.job) or facts.submitted[event.job[0]].record
    run_s, best = seen.runs(event.job, record.limit)[1], min(speeds.values())
    soon = seen.soonest()
    held = {gpu for start in seen.running.values() for part in start.parts for gpu in _of(part)} | seen.promised(event)
    free = [speeds[gpu] for gpu in speeds if gpu not in held and gpu[0] not in seen.away]
    others = any(name != event.job for name in seen.waits)
    asked = record.per_node.rpartition(":")[2] if not record.per_job else record.per_job.rpartition(":")[2]
    if not others and asked == "1" and record.least == 1 and not event.pool:
        now = min(free, default=max(speeds.values()))
    else:
        now = max(free, default=max(speeds.values()))  # who is ahead, and distance, may leave it no better
    gain = run_s * (now / best - 1.0)
    net = [
        run_s * (now - speeds[gpu]) / best - soon[gpu]
        for gpu in speeds
        if speeds[gpu] < now and gpu[0] not in seen.away
    ]
    return gain, max(net, default=-math.inf)


def _of(part: Part) -> Iterator[Gpu]:
    return ((part.node, slot) for slot in part.slots)


def a_decline_pays(facts: Facts) -> Iterator[Verdict]:
    """At that moment, and by what it can gain at most."""
    since: dict[Name, float] = {}
    most: dict[Name, float] = defaultdict(float)
    for event in _declines(facts):
        gain, net = _gains(facts, event)
        began = since.setdefault(event.job, event.at)
        most[event.job] = max(most[event.job], gain)
        if gain <= EDIT_S:
            said = f"kept for better GPUs; it gains {max(gain, 0.0):.1f} s by them, and the edit takes {EDIT_S:.0f} s"
            yield Verdict("P13", "short-kept", event.at, event.job, said)
        elif net <= 0:
            yield Verdict("P13", "not-earlier", event.at, event.job, "kept, and would be done sooner if it started")
        if event.at - began > TWICE * most[event.job] + LOOKS_S:
            said = f"kept for {event.at - began:.0f} s; it gains {most[event.job]:.0f} s at most"
            yield Verdict("P13", "kept-long", event.at, event.job, said)


def size(gpus: int) -> str:
    return next((name for most, name in SIZES if gpus <= most), ">16")


def late(facts: Facts) -> Iterator[tuple[str, float, Started]]:
    """Of each job its size, and by how much it started later than without pald."""
    for name, start in facts.first_start.items():
        alone = facts.history.alone.get(name)
        if alone is not None:
            yield size(sum(len(part.slots | part.shared) for part in start.parts)), start.at - alone, start


def none_pays_for_its_size(facts: Facts) -> Iterator[Verdict]:
    """Where nothing goes wrong, and Slurm's order counts."""
    if facts.history.setting["entitlement"] or facts.history.setting["edits_per_s"] != "20":
        return
    if facts.troubles or facts.nodes or any(event.what != "release" for event in facts.did):
        return
    for gpus, by, start in late(facts):
        # Where looks are far apart, for slurmctld's sake, a job waits for the first one that can see it.
        look_s = float(facts.history.setting["read_s"]) / READ_SHARE
        most = LATE_S[gpus] + look_s + _longest(facts) * (1 + _others(facts, start))
        if by > most:
            said = f"{by:.0f} s later than without pald, of {gpus} GPUs; {most:.0f} is the most"
            yield Verdict("P5", "late-for-its-size", start.at, start.record.job, said)


def _longest(facts: Facts) -> float:
    return max((stay.end - stay.start for stay in facts.stays if stay.end < math.inf), default=0.0)


def _others(facts: Facts, start: Started) -> int:
    """Runs that it may wait for beyond one: of other wide jobs that are there, of jobs that begin anew."""
    record = start.record
    wide = [e for e in facts.first_start.values() if len(e.parts) > 1 and e.record.job != record.job]
    there = [e for e in wide if e.record.submit < start.at and e.at > record.submit]
    return len(there) + sum(isinstance(event, Stopped) and bool(event.by) for event in facts.events)


def no_move_takes_what_is_kept(facts: Facts) -> Iterator[Verdict]:
    """Who is moved to a node on which one that waits for a whole node could have started, when all others have left.

    Not from other GPUs of that node: had it not been moved, it would not have left it.
    """
    if facts.history.setting["moves"] != "own":
        return
    stopped: dict[Name, Stopped] = {}
    runs: dict[Name, Started] = {}
    for event in facts.events:
        if isinstance(event, Stopped) and event.by:
            stopped[event.job] = event
        elif isinstance(event, Started):
            before, runs[event.record.job] = runs.get(event.record.job), event
            if event.record.job not in stopped or before is None:
                continue
            stop = stopped.pop(event.record.job)
            there = {part.node for part in before.parts}
            for part in (part for part in event.parts if part.node not in there):
                for name, clear in _whole(facts, part.node, stop.at, event):
                    said = f"could have started on {part.node} at {clear:.0f}; a job was moved there at {event.at:.0f}"
                    yield Verdict("P5", "moved-ahead", clear, name, said)


def _whole(facts: Facts, node: str, since: float, moved: Started) -> Iterator[tuple[Name, float]]:
    """Who waited for all GPUs of a node since then, and when this one was left by all but who was moved there."""
    there = [stay for stay in facts.stays if stay.node == node and stay.end > moved.at]
    mine = [stay for stay in there if stay.job == moved.record.job]
    others = [stay for stay in there if stay.job != moved.record.job]
    clear = max((stay.end for stay in others if stay.start < moved.at), default=moved.at)
    if any(moved.at <= stay.start <= clear for stay in others) or all(stay.end < clear + PASS_S for stay in mine):
        return
    for name, start in facts.first_start.items():
        record = facts.submitted[name[0]].record
        whole = record.per_node == f"gres/gpu:{GPUS}" and record.least == 1 and not record.per_job
        if whole and record.submit < since - PASS_S and start.at > clear + PASS_S:
            yield name, clear


RULES = (a_decline_pays, none_pays_for_its_size, no_move_takes_what_is_kept)
