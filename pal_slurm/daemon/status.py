"""How things stand, for `palctl status`. In: port, store, config. Out: a Status with nothing left to look up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pal_slurm.config import Config
from pal_slurm.daemon.canary import described
from pal_slurm.daemon.pausing import paused
from pal_slurm.daemon.ready import warnings
from pal_slurm.slurm.port import Capabilities, Slurm
from pal_slurm.store import Leadership, Ledger, Said, Store, Switches


@dataclass(frozen=True, slots=True)
class Status:
    cluster: str
    backend: str
    capabilities: Capabilities
    actuator: str
    policy: str
    canary: str  # empty: every job is placed
    leader: str | None
    fence: int | None
    paused: str | None
    nodes: int
    gpus: int
    gpus_free: int
    slots: bool
    pending: int
    leased: int
    pinned: int  # pending with a pin of ours
    open_intents: int
    said: tuple[str, ...]  # what the pald that leads says is wrong with it
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def lines(self) -> Iterator[tuple[str, str]]:
        c = self.capabilities
        can = [
            "exact slots" if c.exact_slots else "",
            "re-pin" if c.repin else "no re-pin",
            "untyped restore" if c.restore_untyped else "no untyped restore",
        ]
        yield "cluster", f"{self.cluster}: {self.nodes} nodes, {self.gpus} GPUs, {self.gpus_free} free"
        yield "Slurm", f"{c.release} through {self.backend}; {', '.join(filter(None, can))}"
        yield "pins", "name exact devices (slots)" if self.slots else "name nodes (no slots are set up)"
        yield "pald", f"led by {self.leader} (fence {self.fence})" if self.leader else "no pald is at work"
        notes = [self.canary, f"PAUSED: {self.paused}" if self.paused else ""]
        yield "mode", "; ".join([f"{self.actuator}, policy {self.policy}", *filter(None, notes)])
        yield "queue", f"{self.pending} pending, {self.leased} leased, {self.pinned} pinned and not started"
        yield "ledger", f"{self.open_intents} intents without a known outcome"


def status_of(config: Config, slurm: Slurm, store: Store) -> Status:
    setup = slurm.setup()
    snapshot = slurm.snapshot()
    term = Leadership(store, setup.cluster_name).current()
    valid = term is not None and term.expires > time.time()
    pause = paused(config, Switches(store))
    free = snapshot.cluster.gpu_free & snapshot.cluster.node_ok[:, None]
    return Status(
        cluster=setup.cluster_name,
        backend=slurm.name,
        capabilities=slurm.capabilities(),
        actuator=config.actuator,
        policy=config.policy.name,
        canary=described(config.canary) if config.actuator != "shadow" else "",
        leader=term.owner if term and valid else None,
        fence=term.fence if term and valid else None,
        paused=pause.reason if pause else None,
        nodes=snapshot.cluster.n_nodes,
        gpus=snapshot.cluster.n_gpus,
        gpus_free=int(free.sum()),
        slots=snapshot.cluster.slots,
        pending=len(snapshot.pending),
        leased=sum(job.is_leased(snapshot.taken) for job in snapshot.pending),
        pinned=sum(job.pending and job.pin is not None for job in snapshot.pending),
        open_intents=len(Ledger(store, setup.cluster_name).open()),
        said=Said(store, setup.cluster_name).notes() if valid else (),
        warnings=tuple(warnings(setup, config)),
    )
