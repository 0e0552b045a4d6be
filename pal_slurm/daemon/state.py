"""What outlives a change of pal.yaml. In: the Config that pald starts with. Out: DaemonState.

Nothing here goes by pal.yaml but by the keys that need a restart of pald (config.NEED_RESTART): build.py makes
everything else anew, at the start and at each reload alike, and hands it this.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from pal_slurm.config import Config, database_url
from pal_slurm.config.schema import BudgetSection
from pal_slurm.daemon.bell import Bell
from pal_slurm.daemon.beside.entitling import Entitling
from pal_slurm.daemon.beside.forgetting import Forgetter
from pal_slurm.daemon.beside.gpu_limits import GpuLimits
from pal_slurm.daemon.beside.learning import Learner
from pal_slurm.daemon.beside.resuming import Resuming, accounts_of
from pal_slurm.daemon.beside.showing import Showing
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.connect import commands_of, connect
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.figures.metrics import Metrics
from pal_slurm.daemon.figures.serving import Figures
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.leases.qos import Preempting
from pal_slurm.daemon.moves.movers import MoversMemory
from pal_slurm.daemon.observe import Observer
from pal_slurm.daemon.pace import KeepBudget, ReadPace, StartBudget, WriteBudget
from pal_slurm.daemon.past import Past
from pal_slurm.daemon.remembering import Remembering
from pal_slurm.daemon.rights import Rights
from pal_slurm.daemon.rivals import Rivals
from pal_slurm.daemon.stepping_back import SteppingBack
from pal_slurm.daemon.users.asking import Asking
from pal_slurm.errors import ConfigError, StoreError
from pal_slurm.learning.telling import app_rows
from pal_slurm.report.answering import UserAnswers
from pal_slurm.slurm.commands.gpu_limits import unlimited
from pal_slurm.slurm.commands.shares import fair_shares
from pal_slurm.slurm.port import SchedulerSetup, Slurm
from pal_slurm.store import (
    DecisionRepo,
    Leadership,
    Ledger,
    MemoryRepo,
    OutcomeRepo,
    Said,
    Store,
    Switches,
    open_store,
)

log = logging.getLogger("pald")


@dataclass(frozen=True)
class Paces:
    """What slurmctld's time went into; `of` says how much may."""

    reads: ReadPace = field(default_factory=ReadPace)
    edits: WriteBudget = field(default_factory=lambda: WriteBudget(0.0, 0.0))
    starts: StartBudget = field(default_factory=StartBudget)
    keeps: KeepBudget = field(default_factory=KeepBudget)

    def of(self, budget: BudgetSection) -> Paces:
        return Paces(
            replace(self.reads, share=budget.read_share),
            replace(self.edits, rate=budget.edits_per_s, burst=max(64.0, 2 * budget.edits_per_s)),
            replace(self.starts, share=budget.start_share),
            replace(self.keeps, share=budget.keep_share),
        )


@dataclass
class DaemonState:
    clock: Clock
    slurm: Slurm
    store: Store
    cluster: str  # as slurm.conf has it
    leader: Leader
    metrics: Metrics
    faults: Faults
    figures: Figures
    # as pal.yaml has it now: the one that counts, where we give our sign of life, where users ask
    config: Config
    alive: Alive
    users: Asking
    # what the store keeps
    ledger: Ledger
    decisions: DecisionRepo
    outcomes: OutcomeRepo
    switches: Switches
    said: Said
    memory: Remembering
    observer: Observer
    # what goes on beside the cycle
    forgetter: Forgetter
    learner: Learner
    entitling: Entitling
    gpu_limits: GpuLimits
    resuming: Resuming
    showing: Showing
    preempting: Preempting
    # what was seen
    entries: Entries
    past: Past
    rivals: Rivals
    movers: MoversMemory = field(default_factory=MoversMemory)
    rights: Rights = field(default_factory=Rights)
    paces: Paces = field(default_factory=Paces)
    back: SteppingBack = field(default_factory=SteppingBack)
    bell: Bell = field(default_factory=Bell)

    def close(self) -> None:
        if self.alive.given and self.leader.confirm():
            self.alive.gone()  # believed for a minute, it would have jobs wait for nobody
        try:
            self.leader.resign()
        except StoreError as e:
            log.warning("another pald can take over only when our time has run out: %s", e)
        finally:
            for close in (self.users.close, self.figures.close, self.bell.close, self.slurm.close, self.store.close):
                with self.faults.contained("end"):
                    close()


def alive_of(config: Config) -> Alive:
    return Alive(Path(config.cycle.alive_file) if config.cycle.alive_file else None)


def users_path(config: Config) -> Path | None:
    return config.users.path(config.cycle.alive_file)


def opened(config: Config, clock: Clock, slurm: Slurm | None = None) -> tuple[DaemonState, SchedulerSetup]:
    """`slurm`: talk to that one, and not to the one that the configuration names."""
    try:
        Path(config.state_dir).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigError(f"state_dir: can't make {config.state_dir}: {e.strerror}") from e
    store = open_store(database_url(config), create=True)
    try:
        slurm = slurm or connect(config)
    except BaseException:
        store.close()
        raise
    try:
        setup = slurm.setup()
        return state_of(config, clock, slurm, store, setup.cluster_name), setup
    except BaseException:
        slurm.close()
        store.close()
        raise


def state_of(config: Config, clock: Clock, slurm: Slurm, store: Store, name: str) -> DaemonState:
    metrics = Metrics()
    faults, entries, commands = Faults(metrics.fault), Entries(), commands_of(config)
    store.refused = faults.row_refused
    ledger, decisions, outcomes = Ledger(store, name), DecisionRepo(store, name), OutcomeRepo(store, name)
    showing = Showing(faults)
    answers = UserAnswers(store, name, lambda: app_rows(store, state.config), lambda: showing.present)
    state = DaemonState(
        clock=clock,
        slurm=slurm,
        store=store,
        cluster=name,
        leader=Leader(Path(config.lock_file()), Leadership(store, name), config.leader.ttl_s, clock),
        metrics=metrics,
        faults=faults,
        figures=Figures(config.metrics.listen, metrics.text, faults),
        config=config,
        alive=alive_of(config),
        users=Asking(users_path(config), answers, config.users.per_minute, faults),
        ledger=ledger,
        decisions=decisions,
        outcomes=outcomes,
        switches=Switches(store),
        said=Said(store, name),
        memory=Remembering(MemoryRepo(store, name)),
        observer=Observer(outcomes),
        forgetter=Forgetter(store, name, decisions, faults, clock.monotonic),
        learner=Learner(store, name, faults),
        entitling=Entitling(lambda: fair_shares(commands, name), faults),
        gpu_limits=GpuLimits(lambda: unlimited(commands, name), faults),
        resuming=Resuming(outcomes, accounts_of(commands), faults),
        showing=showing,
        preempting=Preempting(commands, faults=faults),
        entries=entries,
        past=Past(ledger, entries),
        rivals=Rivals(entries),
    )
    return state
