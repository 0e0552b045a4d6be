"""Puts pald together. In: Config. Out: Pald, whose parts all come from here."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from pal_slurm.config import NEED_RESTART, Config, database_url
from pal_slurm.daemon.bell import Bell
from pal_slurm.daemon.beside.entitling import Entitling
from pal_slurm.daemon.beside.forgetting import Forgetter
from pal_slurm.daemon.beside.gpu_limits import GpuLimits
from pal_slurm.daemon.beside.learning import Learner
from pal_slurm.daemon.beside.resuming import Resuming, accounts_of
from pal_slurm.daemon.beside.showing import Showing, ShownBeside
from pal_slurm.daemon.books import Books
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.connect import commands_of, connect
from pal_slurm.daemon.cycle import Cycle
from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.figures.metrics import Metrics
from pal_slurm.daemon.figures.serving import Figures
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.leases.qos import Preempting
from pal_slurm.daemon.moves.movers import Movers
from pal_slurm.daemon.observe import Observer
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.pace import KeepBudget, ReadPace, StartBudget, WriteBudget
from pal_slurm.daemon.remembering import Remembering
from pal_slurm.daemon.sharing import why_no_sharing
from pal_slurm.daemon.users.asking import Asking
from pal_slurm.daemon.wake import Waker
from pal_slurm.daemon.writer import Writer
from pal_slurm.errors import ConfigError, StoreError
from pal_slurm.guard import Rules
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.learning.telling import app_rows
from pal_slurm.policy import Composition, compose
from pal_slurm.report.answering import UserAnswers
from pal_slurm.slurm.commands.gpu_limits import unlimited
from pal_slurm.slurm.commands.shares import fair_shares
from pal_slurm.slurm.port import SchedulerSetup, Slurm
from pal_slurm.store import (
    DecisionRepo,
    Leadership,
    Ledger,
    MemoryRepo,
    MoveRepo,
    OutcomeRepo,
    Said,
    Store,
    Switches,
    open_store,
)
from pal_slurm.store.samples import SampleRepo

log = logging.getLogger("pald")


@dataclass
class Pald:
    config: Config
    slurm: Slurm
    store: Store
    leader: Leader
    cycle: Cycle
    waker: Waker
    metrics: Metrics
    setup: SchedulerSetup
    preempting: Preempting
    faults: Faults
    figures: Figures
    said: Said
    showing: Showing
    users: Asking
    told: tuple[str, ...] | None = None  # what `palctl status` shows of us; None: not known
    refused: str = ""  # why the pal.yaml that lies there is not the one that counts

    def describe(self) -> str:
        caps = self.slurm.capabilities()
        return (
            f"cluster {self.setup.cluster_name}, Slurm {caps.release} through {self.slurm.name}, "
            f"actuator {self.config.actuator}, policy {self.cycle.composition.name}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with us."""
        seen = self.cycle.seen
        said = (
            seen.report.note if seen is not None and seen.report.end == "clock" else "",
            self.refused,
            self.figures.trouble,
            self.users.trouble,
            self.preempting.note,
            self.faults.note,
            self.cycle.movers.note,
            *self.cycle.books.entitling.notes,
            self._no_sharing,
            self.cycle.books.gpu_limits.note,
            self.cycle.books.learner.note,
            self.cycle.books.forgetter.note,
        )
        return tuple(filter(None, said))

    @property
    def _no_sharing(self) -> str:
        """Why nobody shares a GPU where the site wants it."""
        if not self.config.sharing.enabled or self.cycle.rules.parts:
            return ""
        why = why_no_sharing(self.config, self.slurm.capabilities(), self.setup, self.cycle.rules.exact_slots)
        return f"no two jobs get one GPU: {why}"

    def show(self, report: CycleReport, now: float) -> None:
        """What this cycle saw, for others to see."""
        config = self.config
        told = ShownBeside(
            self.setup.cluster_name, config.actuator, self.cycle.composition.name, config.cycle.interval_s, self.notes,
            self.setup.private,
        )  # fmt: skip
        self.showing.begin_when_due(self.cycle.seen, report, told, now)

    def reload(self, config: Config) -> None:
        """Take a new configuration; what would need another database, backend or lock file needs a restart."""
        for key in NEED_RESTART:
            if getattr(config, key) != getattr(self.config, key):
                raise ConfigError(f"{key}: a change of this needs a restart of pald")
        composition, setup = composition_of(config), self.slurm.setup()
        rules = rules_of(config, self.slurm, setup)
        if self.cycle.back.begin(self.config.actuator, config.actuator):
            self.cycle.writer.alive.gone()  # no more leases
        self.setup, self.config = setup, config
        self.cycle.config = self.cycle.books.knowledge.config = self.cycle.books.learner.config = config
        self.cycle.composition, self.cycle.rules = composition, rules
        self.cycle.leases = leases_of(config)
        writer = self.cycle.writer
        writer.budget, writer.max_age_s = budget_of(config), config.cycle.max_age_s
        writer.starts.share, writer.keeps.share = config.budget.start_share, config.budget.keep_share
        writer.alive.path, writer.alive.lease_s = alive_file_of(config), int(config.lease.length_s)
        self.preempting.enabled = config.lease.spare_preempting
        self.cycle.pace.share = config.budget.read_share
        self.cycle.books.knowledge.forget()
        self.cycle.books.entitling.ask_anew()
        self.cycle.books.gpu_limits.ask_anew()
        self.waker.wake_file = wake_file_of(config)
        self.showing.path = config.page.view(config.cycle.alive_file)

    def ask_settings(self) -> bool:
        """Whether slurm.conf says something else than before, for what matters to us."""
        setup = self.slurm.setup()
        changed = setup != self.setup
        self.setup, self.cycle.rules = setup, rules_of(self.config, self.slurm, setup)
        return changed

    def close(self) -> None:
        alive = self.cycle.writer.alive
        if alive.given and self.leader.confirm():
            alive.gone()  # believed for a minute, it would have jobs wait for nobody
        try:
            self.leader.resign()
        except StoreError as e:
            log.warning("another pald can take over only when our time has run out: %s", e)
        finally:
            for close in (self.users.close, self.figures.close, self.slurm.close, self.store.close):
                with self.faults.contained("end"):
                    close()


def build(config: Config, clock: Clock, slurm: Slurm | None = None) -> Pald:
    """`slurm`: talk to that one, and not to the one that the configuration names."""
    composition = composition_of(config)
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
        name = setup.cluster_name
        leader = Leader(Path(config.lock_file()), Leadership(store, name), config.leader.ttl_s, clock)
        metrics = Metrics()
        faults = Faults(metrics.fault)
        store.refused = faults.row_refused
        ledger, decisions, outcomes = Ledger(store, name), DecisionRepo(store, name), OutcomeRepo(store, name)
        books = Books(
            ledger=ledger,
            decisions=decisions,
            switches=Switches(store),
            observer=Observer(outcomes),
            forgetter=Forgetter(store, name, decisions, faults, clock.monotonic),
            knowledge=KnowledgeKeeper(store, config, cluster=name),
            learner=Learner(store, config, name, faults),
            memory=Remembering(MemoryRepo(store, name)),
            entitling=Entitling(lambda: fair_shares(commands_of(config), name), faults),
            gpu_limits=GpuLimits(lambda: unlimited(commands_of(config), name), faults),
        )
        entries = Entries()
        writer = Writer(
            slurm=slurm,
            ledger=ledger,
            leader=leader,
            clock=clock,
            entries=entries,
            alive=Alive(alive_file_of(config), lease_s=int(config.lease.length_s)),
            budget=budget_of(config),
            max_age_s=config.cycle.max_age_s,
            starts=StartBudget(config.budget.start_share),
            keeps=KeepBudget(config.budget.keep_share),
        )
        cycle = Cycle(
            slurm=slurm,
            books=books,
            composition=composition,
            config=config,
            rules=rules_of(config, slurm, setup),
            pace=ReadPace(config.budget.read_share),
            movers=Movers(
                MoveRepo(store, name),
                ledger,
                writer,
                lambda job: SampleRepo(store).of_job(name, str(job)),
                resuming=Resuming(outcomes, accounts_of(config), faults),
            ),
            leases=leases_of(config),
            entries=entries,
            writer=writer,
            faults=faults,
        )
        showing = Showing(config.page.view(config.cycle.alive_file), faults)
        answers = UserAnswers(store, name, lambda: app_rows(store, cycle.config), lambda: showing.present)
        socket = config.users.path(config.cycle.alive_file)
        return Pald(
            config=config,
            slurm=slurm,
            store=store,
            leader=leader,
            cycle=cycle,
            waker=Waker(clock, slurm, wake_file_of(config), bell=Bell()),
            metrics=metrics,
            setup=setup,
            preempting=Preempting(commands_of(config), config.lease.spare_preempting, faults=faults),
            faults=faults,
            figures=Figures(config.metrics.listen, metrics.text, faults),
            said=Said(store, name),
            showing=showing,
            users=Asking(socket, answers, config.users.per_minute, faults),
        )
    except BaseException:
        slurm.close()
        store.close()
        raise


def composition_of(config: Config) -> Composition:
    """Slurm's priority counts, whatever the order of the named policy, unless `policy.order` says otherwise (P5)."""
    p = config.policy
    return compose(
        p.name,
        order=p.order or "slurm",
        placement=p.placement,
        patience=p.patience,
        pools="best" if p.pools == "fastest" else p.pools,
        entitlement=p.entitlement,
        fill="" if p.backfill is None else "easy" if p.backfill else "none",
    )


def wake_file_of(config: Config) -> Path | None:
    return Path(config.cycle.wake_file) if config.cycle.wake_file else None


def alive_file_of(config: Config) -> Path | None:
    return Path(config.cycle.alive_file) if config.cycle.alive_file else None


def leases_of(config: Config) -> LeaseRules:
    return LeaseRules(most_s=int(config.lease.max_s), margin_s=max(1, round(config.lease.margin_s)))


def budget_of(config: Config) -> WriteBudget:
    return WriteBudget(rate=config.budget.edits_per_s, burst=max(64.0, 2 * config.budget.edits_per_s))


def rules_of(config: Config, slurm: Slurm, setup: SchedulerSetup) -> Rules:
    """Devices are named only where the release can also take the names back; the site may ask for nodes only."""
    caps = slurm.capabilities()
    exact = caps.exact_slots and (config.precision == "slots" or (config.precision == "auto" and caps.restore_untyped))
    return Rules(
        setup.disable_job_shrink, exact, config.lease.margin_s, parts=not why_no_sharing(config, caps, setup, exact),
        accounts=setup.accounts_hold, preempts_by_tier=setup.preempts_by_tier,
    )  # fmt: skip
