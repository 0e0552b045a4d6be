"""Two jobs on one GPU, in one plan. In: a walk, what is known of pairs. Out: who starts as a part; who beside whom.

The first of a pair must itself have started as a part of its GPU, so whoever may share, and of whom a pair is known
that gains, starts as one; until somebody comes it has the GPU to itself. Who waits for want of a GPU is then put beside
one that runs: of the same owner, on the host that gains most, by the equation with the factors of the pair. Of a pair
that is to be measured an owner has one couple at a time: nobody knows what it costs them. Nobody else
waits longer for it: while a job of another user that could have the host's GPU is ahead, nobody is put there, for the
host becomes slower; and no reservation on that node is moved.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.model import (
    Action,
    Alongside,
    App,
    Decision,
    Job,
    JobKind,
    PairsByUser,
    Placement,
    Reason,
    predict,
)
from pal_slurm.model.sharing import BothUsers
from pal_slurm.policy.easy import limit
from pal_slurm.policy.entitlement.debts import Person, person
from pal_slurm.policy.needs import Area
from pal_slurm.policy.pools.claims import relative_rates
from pal_slurm.policy.pools.pairing import GAIN, Sharer, gain, owner_of
from pal_slurm.policy.turn import Turn

if TYPE_CHECKING:
    from pal_slurm.policy.line import Key, Waiting
    from pal_slurm.policy.walk import Walk

MOST_SLOWER = 2.0  # who runs keeps half of its speed, whatever another would gain
WANT_ROOM = (Reason.NO_ROOM, Reason.BEHIND_HEAD)


class Host(NamedTuple):
    """A job that has a part of a GPU, and nobody has another."""

    job: Job
    app: App
    row: int
    slot: int
    model: int
    end: float


class Neighbours:
    def __init__(self, walk: Walk) -> None:
        self._walk, self._planner, self._cluster = walk, walk.planner, walk.planner.cluster
        self._pairs: PairsByUser = walk.planner.knowledge.pairs
        self._worth: dict[tuple[str, str, int], bool] = {}
        self._seated: set[int] = set()

    def first(self, action: Action, job: Job, app: App, where: Placement) -> Placement | None:
        """Where it starts, as a part of its GPU if somebody may be put beside it later; None: wherever Slurm likes."""
        if action is not Action.START:
            return None
        parts = self._cluster.parts
        if not self._walk.facts.shares or parts is None or where.n_gpus != 1 or not self._may_share(job):
            return where
        row, slot = self._cluster.node_index[where.nodes[0]], where.gpus[0][0]
        model = int(self._cluster.gpu_model[row, slot])
        if parts[row, slot] < 2 or not self._is_worth(job, app, model):
            return where
        return replace(where, exact=True, shard=True)

    def _is_worth(self, job: Job, app: App, model: int) -> bool:
        """Whether any pair with such a job is known that gains."""
        key = (job.user, job.hint.app or "", model)
        if key not in self._worth:
            known, kind = self._pairs.of(job.user), JobKind(job.hint.app or "", 1)
            mine = self._sharer(job, app, model)
            self._worth[key] = any(
                gain(one, other, self._cluster.models, known) >= GAIN
                for partner in known.partners(kind, self._cluster.models[model])
                for theirs in [self._sharer(job, self._app(partner.app, job.user), model, partner)]
                for one, other in ((mine, theirs), (theirs, mine))
            )
        return self._worth[key]

    def _sharer(self, job: Job, app: App, model: int, kind: JobKind | None = None) -> Sharer:
        """Nobody is parted once it runs, so all count as such that can't be moved: what is only guessed is no pair."""
        rates = relative_rates(app, self._cluster.models)
        kind = kind or JobKind(job.hint.app or "", 1)
        return Sharer(job.id, kind, self._owner(job), rates, movable=False, pool=model)

    def _owner(self, job: Job) -> str:
        """What anybody may call his account makes him nobody's fellow."""
        return owner_of(job) if self._walk.facts.accounts else f"{owner_of(job)} u:{job.user}"

    def _app(self, name: str | None, user: str) -> App:
        return self._planner.knowledge.apps.get(name, user)

    def seat(self) -> None:
        """After all others: who waits for want of a GPU."""
        hosts: dict[str, list[Host]] = {}
        for host in self._hosts():
            hosts.setdefault(self._owner(host.job), []).append(host)
        if self._walk.closed or not hosts:
            return
        vain: set[tuple[object, ...]] = set()  # for equals of one for whom there was no host there is none either
        for guest in sorted(self._planner.queue.waiting.values(), key=lambda entry: entry.place.key):
            job = guest.place.job
            open_ = hosts.get(self._owner(job))
            if not open_ or guest.turn is not Turn.PLACE or not self._may_share(job):
                continue
            kind = (job.user, job.account, guest.app.name, job.hint.app, self._walk.floor.needs.of(job), limit(job))
            for task in () if kind in vain else self._tasks(guest):
                seated = self._best(guest, open_)
                if seated is None:
                    vain.add(kind)
                    break
                host, together, area = seated
                self._starts(guest, task, host, together, area)
                open_.remove(host)

    def _hosts(self) -> Iterator[Host]:
        cluster, running = self._cluster, self._planner.running
        if not self._walk.facts.shares or cluster.parts is None or cluster.parts_free is None:
            return
        coming = {spot for where in self._walk.facts.released.values() for spot in _spots(where)}
        count = Counter(spot for _, where in running.values() for spot in _spots(where))
        for job, where in running.values():
            if not (job.shard and self._may_share(job)) or job.completing or job.suspended or where.n_gpus != 1:
                continue
            (spot,) = _spots(where)
            row = cluster.node_index.get(spot[0])
            if row is None or count[spot] != 1 or spot in coming or not cluster.node_ok[row]:
                continue
            many, left = cluster.parts[row, spot[1]], cluster.parts_free[row, spot[1]]
            if many >= 2 and left == many - 1:
                end = math.inf if job.end is None else float(job.end)
                model = int(cluster.gpu_model[row, spot[1]])
                yield Host(job, self._app(job.hint.app, job.user), row, spot[1], model, end)

    def _tasks(self, guest: Waiting) -> Collection[int | None]:
        """Those that this plan lets wait for want of room."""
        job, told = guest.place.job, self._walk.told.get(guest.place.job.id, ())
        if job.id in self._walk.facts.released:
            return ()
        starts = {d.task for d in told if d.action is not Action.WAIT}
        tasks: tuple[int | None, ...] = job.array_tasks or (job.array_task,)
        left = [task for task in tasks if task not in starts]
        return left if left and self._wants_room(guest) else ()

    def _wants_room(self, guest: Waiting) -> bool:
        told = [d.reason for d in self._walk.told.get(guest.place.job.id, ()) if d.action is Action.WAIT]
        if not told and guest.group is not None:
            told = [self._walk.why_waits(guest.group, guest.place)[0]]
        return all(reason in WANT_ROOM for reason in told)

    def _best(self, guest: Waiting, hosts: Sequence[Host]) -> tuple[Host, Alongside, Area] | None:
        """The host beside which most is done; of equals the first that has room."""
        kinds: dict[tuple[object, ...], list[Host]] = {}
        for host in hosts:
            kinds.setdefault((host.job.user, host.job.hint.app, host.model), []).append(host)
        pairs = ((self._together(guest, equals[0]), equals) for equals in kinds.values())
        found = sorted((-pair.gain, n, pair, equals) for n, (pair, equals) in enumerate(pairs) if pair is not None)
        for _, _, pair, equals in found:
            for host in equals:
                if (area := self._room(guest, host)) is not None:
                    return host, pair._replace(job=host.job.id), area
        return None

    def _together(self, guest: Waiting, host: Host) -> Alongside | None:
        cluster, job = self._cluster, guest.place.job
        one, other = self._sharer(host.job, host.app, host.model), self._sharer(job, guest.app, host.model)
        known = BothUsers(self._pairs.of(host.job.user), self._pairs.of(job.user))
        more, name = gain(one, other, cluster.models, known), cluster.models[host.model]
        of_guest, of_host = known.factor(other.kind, one.kind, name), known.factor(one.kind, other.kind, name)
        if more < GAIN or of_host > MOST_SLOWER:
            return None
        measured = not known.unmeasured(one.kind, other.kind, name)
        if not measured and not {one.owner, _couple(host.job, job, one.owner)}.isdisjoint(self._measuring):
            return None
        return Alongside(host.job.id, of_guest, of_host, more, measured)

    @cached_property
    def _measuring(self) -> set[object]:
        """Couples of each owner that have a GPU together; owners of whom one is on his way to another."""
        there: dict[tuple[str, int], list[Job]] = {}
        for job, where in self._planner.running.values():
            for spot in _spots(where) if job.shard else ():
                there.setdefault(spot, []).append(job)
        coming = [spot for where in self._walk.facts.released.values() for spot in _spots(where) if spot in there]
        couples = [jobs for jobs in there.values() if len(jobs) > 1]
        owners: set[object] = {self._owner(there[spot][0]) for spot in coming}
        return owners | {_couple(jobs[0], jobs[1], self._owner(jobs[0])) for jobs in couples}

    def _room(self, guest: Waiting, host: Host) -> Area | None:
        """Where it would count as running; None: it may not run there, or somebody would wait longer for it."""
        walk, job, row = self._walk, guest.place.job, host.row
        need = walk.floor.needs.of(job)
        if need is None or not need.ways:
            return None
        area = next((area for area in need.areas if area.mask is None or area.mask[row]), None)
        _, _, cpus, mem_mb = need.ways[0]
        kept = self._is_kept(job, row)
        state = walk.easy.held if kept and walk.easy.held is not None else walk.floor
        if area is None or not state.has_room(row, 0, cpus, mem_mb):
            return None
        if kept and walk.now + limit(job) > host.end:
            return None  # the GPU would be given back later than he counts on for whom it is kept
        return None if self._somebody_ahead(guest, row) else area

    def _is_kept(self, job: Job, row: int) -> bool:
        """Whether this node is kept for another, from before the end of that job on."""
        name, end = self._cluster.node_names[row], self._walk.now + limit(job)
        others = (r for r in self._walk.easy.reserved if r.job != job.id and r.job not in self._seated)
        return any(name in r.nodes and (r.start < end or r.cleared is not None) for r in others)

    def _somebody_ahead(self, guest: Waiting, row: int) -> bool:
        """A job of another that could have a GPU of that node, and would have had it sooner."""
        mine, there = person(guest.place.job), self._cluster.partitions
        return any(
            key < guest.place.key and who != mine
            and (not names or any(there[name][row] for name in names if name in there))
            for (who, names), key in self._heads.items()
        )  # fmt: skip

    @cached_property
    def _heads(self) -> dict[tuple[Person, tuple[str, ...]], Key]:
        """The first GPU job of each user, in each partition, that competes and does not start in this plan."""
        heads: dict[tuple[Person, tuple[str, ...]], Key] = {}
        for entry in self._planner.queue.waiting.values():
            job, told = entry.place.job, self._walk.told.get(entry.place.job.id, ())
            starts = told and all(d.action in (Action.START, Action.PLAIN) for d in told)
            if job.gpu_job and not starts and entry.turn in (Turn.PLACE, Turn.PLAIN, Turn.THEIRS):
                who = (person(job), job.partitions)
                heads[who] = min(heads.get(who, entry.place.key), entry.place.key)
        return heads

    @cached_property
    def _limited(self) -> set[int | None]:
        """Arrays that have a limit of their own: of a task that was split off nobody tells it."""
        waiting = (entry.place.job for entry in self._planner.queue.waiting.values())
        return {job.array_id for job in waiting if job.array_limit is not None}

    def _may_share(self, job: Job) -> bool:
        return job.shares and bool(job.hint.app) and (job.array_id is None or job.array_id not in self._limited)

    def _starts(self, guest: Waiting, task: int | None, host: Host, together: Alongside, area: Area) -> None:
        walk, job, cluster = self._walk, guest.place.job, self._cluster
        name = cluster.node_names[host.row]
        where = Placement((name,), ((host.slot,),), True, area.partition, True)
        step = predict(guest.app, where, cluster, self._planner.knowledge.scores, together.factor)
        self._seated.add(job.id)
        if not together.measured:
            self._measuring.add(_couple(host.job, job, self._owner(job)))
        walk.floor.hold(job, where)
        walk.easy.started(job, where)
        who = job.id if task is None else (job.id, task)
        walk.planner.horizon.occupy(who, job, where, walk.now + limit(job))
        decision = Decision(job.id, task, Action.START, Reason.SHARES, where, step, together=together)
        before = walk.told.pop(job.id, [])
        waits = [d for d in before if d.action is Action.WAIT]
        rest = len(job.array_tasks) - 1 - sum(d.action is not Action.WAIT for d in before)
        for each in [d for d in before if d.action is not Action.WAIT]:
            walk.told.setdefault(job.id, []).append(each)
        walk.tell(decision)
        if rest > 0:
            walk.told[job.id] += waits[:1]


def _couple(one: Job, other: Job, owner: str) -> tuple[str, frozenset[str | None]]:
    return owner, frozenset({one.hint.app, other.hint.app})


def _spots(where: Placement) -> list[tuple[str, int]]:
    return [(node, slot) for node, slots in zip(where.nodes, where.gpus, strict=True) for slot in slots]
