"""Who shares GPUs with whom while they run. In: who comes, ends, is to run where. Out: hosts and their guests.

A couple keeps its GPUs: it stands in the order where the first of the two stands, and where one of them may not
be moved neither is. A guest gets a place of its own when nobody else waits for that, or when its host ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pal_slurm.model import JobKind, Sharers, Sharing
from pal_slurm.policy.pools.claims import LEAST_REST_S, PoolClaim
from pal_slurm.policy.pools.housing import Housing
from pal_slurm.policy.pools.pairing import Sharer, gain, owner_of, paired
from pal_slurm.policy.pools.partners import PairBook
from pal_slurm.policy.pools.ratebook import SHOWN_S
from pal_slurm.policy.seams import Contender

Alone = Callable[[Contender], float]  # seconds a step on its GPUs without the other
WELL = 0.5  # of its best rate: who runs at less may be a guest elsewhere instead


class Couples:
    def __init__(self, models: Sequence[str], sharing: Sharing, move_cost_s: float) -> None:
        self._models, self.known = models, PairBook(sharing, models)
        self._move = move_cost_s / LEAST_REST_S  # the share of its time that a move costs
        self.guest: dict[int, int] = {}  # by host
        self.host: dict[int, int] = {}  # by guest
        self.since: dict[int, float] = {}  # a guest's start
        self._looked: dict[int, tuple[float, tuple[float, ...]]] = {}  # by guest: when, and what both had still to do

    def beside(self, job: int) -> int | None:
        return self.guest.get(job, self.host.get(job))

    def arrived(self, here: Contender, housing: Housing) -> bool:
        """Whether it runs as somebody's guest already."""
        if not (here.held and here.job.hint.share and not self.known.empty):
            return False
        host = housing.holder(here.held)
        if host is None:
            return False
        self._join(here.job.id, host, float(here.job.start or 0.0))
        return True

    def ended(self, job: int) -> int | None:
        """The guest that has its host's GPUs to itself now."""
        guest = self.guest.get(job)
        if guest is not None:
            self._part(guest)
        elif job in self.host:
            self._part(job)
        return guest

    def in_line(self, line: list[Contender]) -> list[Contender]:
        """Hosts where the first of both stands; guests behind all others, if they may be moved at all."""
        if not self.host:
            return line
        out: list[Contender] = []
        last: list[Contender] = []
        seen: set[int] = set()
        by_id = {here.job.id: here for here in line}
        for here in line:
            job = here.job.id
            if job in self.host:
                if here.movable:
                    last.append(here)
                here = by_id[self.host[job]]
            if here.job.id not in seen:
                seen.add(here.job.id)
                out.append(here)
        return out + last

    def bound(self, claim: PoolClaim, here: Mapping[int, Contender]) -> PoolClaim:
        guest = self.guest.get(claim.job)
        return claim if guest is None or here[guest].movable else claim._replace(movable=False)

    def divided(self, then: dict[int, int], now: Mapping[int, int], who: Mapping[int, Sharer]) -> None:
        """`then`, `now`: pools of those that have places of their own.

        A guest takes its own where that is better for both; whose host goes is no guest any more, nor who was seen
        to be worse than nobody.
        """
        for guest, host in list(self.host.items()):
            stays = then.get(host) == now[host]
            if stays and gain(who[host]._replace(pool=then[host]), who[guest], self._models, self.known) < 0:
                stays = False
            if guest in then and stays:
                own = who[guest]._replace(own=who[guest].rates[then[guest]])
                if gain(who[host]._replace(pool=then[host]), own, self._models, self.known) > -self._move:
                    del then[guest]
            if guest in then or not stays:
                self._part(guest)

    def seated(
        self,
        then: dict[int, int],
        now: Mapping[int, int],
        who: Mapping[int, Sharer],
        movable: Collection[int],
        at: float,
    ) -> bool:
        """Who waits, or would run badly, beside one that runs well. Out: whether GPUs came free by that."""
        hosts: list[Sharer] = []
        guests: list[Sharer] = []
        for job, one in who.items():
            if job in self.host or job in self.guest:
                continue
            pool = then.get(job, -1)
            if pool < 0:
                guests.append(one)
            elif one.rates[pool] >= WELL:
                hosts.append(one._replace(pool=pool))
            elif job in movable or job not in now:
                cost = self._move if job in now else 0.0
                guests.append(one._replace(own=one.rates[pool] + cost))
        joined = paired(hosts, guests, self._models, self.known)
        freed = [then.pop(guest, None) for guest in joined]
        for guest, host in joined.items():
            self._join(guest, host, at)
        return any(pool is not None for pool in freed)

    def look(self, now: float, here: Mapping[int, Contender], pool_of: Mapping[int, int], alone: Alone) -> float:
        """What pairs that were only estimated show as they run. Out: when to look again."""
        again = math.inf
        for guest, host in self.host.items():
            two, model = (here[guest], here[host]), self._models[pool_of[host]]
            kinds = [JobKind(each.app.name, each.gpus) for each in two]
            if self.known.sure(kinds[0], kinds[1], model):
                continue
            next_s = self.since[guest] + SHOWN_S
            if now >= next_s:
                rest = tuple(each.progress(now).rest_steps for each in two)
                at, before = self._looked.setdefault(guest, (now, rest))
                next_s = at + SHOWN_S
                if now >= next_s:
                    self._saw(
                        now - at, [b - r for b, r in zip(before, rest, strict=True)], kinds, model, map(alone, two)
                    )
                    continue
            again = min(again, next_s)
        return again

    def _saw(
        self, in_s: float, did: Sequence[float], kinds: Sequence[JobKind], model: str, alone: Iterable[float]
    ) -> None:
        pairs = (Sharers(kinds[0], kinds[1], model), Sharers(kinds[1], kinds[0], model))
        for pair, steps, step_s in zip(pairs, did, alone, strict=True):
            self.known.saw(pair, in_s / steps / step_s if steps > 0 else math.inf)

    def sharers(self, line: Sequence[Contender], rates: Mapping[int, tuple[float, ...]]) -> dict[int, Sharer]:
        """Those of the line that said that they may share."""
        if self.known.empty:
            return {}
        return {
            here.job.id: Sharer(
                here.job.id, JobKind(here.app.name, here.gpus), owner_of(here.job), rates[here.job.id], here.movable
            )
            for here in line
            if here.job.hint.share
        }

    def _join(self, guest: int, host: int, now: float) -> None:
        self.guest[host], self.host[guest], self.since[guest] = guest, host, now

    def _part(self, guest: int) -> None:
        del self.guest[self.host.pop(guest)], self.since[guest]
        self._looked.pop(guest, None)
