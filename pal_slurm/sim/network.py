"""Links that jobs share. In: who starts and ends where. Out: at what share of full speed each communicates, max-min.

A job over several nodes uses the uplink of each of them; one over several racks those of its racks too, and so on. A
node's uplink serves one job at full speed, wider ones as many as the site's rules say. Who shares a link shares its
bandwidth: rates rise together until a link is full; those on it stop there, the others rise on, at most to full speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pal_slurm.model import Cluster, Gpus

Link = tuple[int, int]  # level (0: nodes), number
FULL = 1.0
SAME = 1e-12


def fair_rates(flows: Mapping[int, Iterable[Link]], capacity: Mapping[int, float]) -> dict[int, float]:
    """`capacity`: by level."""
    on: dict[Link, set[int]] = {}
    for job, links in flows.items():
        for link in links:
            on.setdefault(link, set()).add(job)
    rates = dict.fromkeys(flows, FULL)
    free = {link: capacity[link[0]] for link in on}
    open_on = {link: set(jobs) for link, jobs in on.items()}
    while open_on:
        link = min(open_on, key=lambda link: (free[link] / len(open_on[link]), link))
        share = free[link] / len(open_on[link])
        if share >= FULL:
            break
        for job in sorted(open_on[link]):
            rates[job] = share
            for other in flows[job]:
                free[other] -= share
                open_on[other].discard(job)
        open_on = {link: jobs for link, jobs in open_on.items() if jobs}
    return rates


class Network:
    """The flows of those who run."""

    def __init__(self, cluster: Cluster, uplinks: tuple[float, ...]) -> None:
        """`uplinks`: of racks, of groups of them ...; the last stands for wider ones."""
        self._levels = (cluster.rack, *cluster.above)
        self._width = cluster.width
        wider = [uplinks[min(i, len(uplinks) - 1)] for i in range(len(self._levels))]
        self._capacity = {0: 1.0} | dict(enumerate(wider, 1))
        self._links: dict[int, frozenset[Link]] = {}
        self._on: dict[Link, set[int]] = {}
        self._rates: dict[int, float] = {}

    def rate(self, job: int) -> float:
        return self._rates.get(job, FULL)

    def joins(self, job: int, gpus: Gpus) -> list[int]:
        """Whose rate is another one now, but for its own."""
        links = self._links_of(gpus)
        if not links:
            return []
        self._links[job] = links
        for link in links:
            self._on.setdefault(link, set()).add(job)
        return [other for other in self._reckon(links) if other != job]

    def leaves(self, job: int) -> list[int]:
        links = self._links.pop(job, frozenset())
        self._rates.pop(job, None)
        for link in links:
            self._on[link].discard(job)
        return self._reckon(links)

    def _links_of(self, gpus: Gpus) -> frozenset[Link]:
        nodes = sorted({gpu // self._width for gpu in gpus})
        if len(nodes) < 2:
            return frozenset()
        links = {(0, node) for node in nodes}
        for level, groups in enumerate(self._levels, 1):
            there = set(groups[nodes].tolist())
            if len(there) < 2:
                break
            links |= {(level, group) for group in there}
        return frozenset(links)

    def _reckon(self, links: Iterable[Link]) -> list[int]:
        """Only those who share a link with them, or with one who does, can be touched."""
        flows: dict[int, frozenset[Link]] = {}
        seen, todo = set(links), list(links)
        while todo:
            for job in self._on.get(todo.pop(), ()):
                if job not in flows:
                    flows[job] = self._links[job]
                    new = self._links[job] - seen
                    seen |= new
                    todo += new
        rates = fair_rates(flows, self._capacity)
        changed = [job for job, rate in rates.items() if abs(rate - self._rates.get(job, FULL)) > SAME]
        self._rates |= rates
        return sorted(changed)
