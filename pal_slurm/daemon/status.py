"""How things stand, for `palctl status`. In: port, store, config. Out: a Status with nothing left to look up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from pal_slurm.config import Config
from pal_slurm.daemon.canary import described
from pal_slurm.daemon.moves.budget import WEEK_S, sum_of
from pal_slurm.daemon.pausing import paused
from pal_slurm.daemon.ready import warnings
from pal_slurm.slurm.port import Capabilities, Slurm
from pal_slurm.store import Leadership, Ledger, MoveRepo, Said, Store, Switches


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
    moves: str  # empty: switched off, and none in the last week
    said: tuple[str, ...]  # what the pald that leads says is wrong with it
    warnings: tuple[str, ...]

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
        notes = [self.canary, f"PAUSED {self.paused}" if self.paused else ""]
        yield "mode", "; ".join([f"{self.actuator}, policy {self.policy}", *filter(None, notes)])
        yield "queue", f"{self.pending} pending, {self.leased} leased, {self.pinned} pinned and not started"
        if self.moves:
            yield "moves", self.moves
        yield "ledger", f"{self.open_intents} intents without a known outcome"


def _moves(config: Config, repo: MoveRepo, now: float) -> str:
    week, going = repo.since(now - WEEK_S), repo.open()
    on = config.moves_jobs()
    if not (on or week):
        return ""
    seen = sum_of(week)
    hours = f"{seen.lost_gpu_s / 3600:.2f} GPU hours lost, {seen.brought_gpu_s / 3600:.2f} brought"
    told = f"{config.moves.mode if on else 'off'}; {len(going)} going on; last week: {len(week)}, {hours}"
    return f"{told}; STOPPED, for they cost more than they brought" if seen.stopped else told


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
        paused=pause.told if pause else None,
        nodes=snapshot.cluster.n_nodes,
        gpus=snapshot.cluster.n_gpus,
        gpus_free=int(free.sum()),
        slots=snapshot.cluster.slots,
        pending=len(snapshot.pending),
        leased=sum(job.is_leased(snapshot.taken) for job in snapshot.pending),
        pinned=sum(job.pending and job.pin is not None for job in snapshot.pending),
        open_intents=len(Ledger(store, setup.cluster_name).open()),
        moves=_moves(config, MoveRepo(store, setup.cluster_name), snapshot.taken),
        said=Said(store, setup.cluster_name).notes() if valid else (),
        warnings=tuple(warnings(setup, config)),
    )
