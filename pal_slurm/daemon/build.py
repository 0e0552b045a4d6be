"""Puts pald together. In: Config. Out: Pald, whose parts all come from here.

There is one way to do so, at the start and at a reload: everything is made anew of pal.yaml and slurm.conf, around the
DaemonState (state.py), which outlives them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pal_slurm.config import NEED_RESTART, Config
from pal_slurm.config.composition import composition_of
from pal_slurm.daemon.beside.showing import ShownBeside
from pal_slurm.daemon.books import Books
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.cycle import Cycle
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.moves.movers import Movers
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.sharing import why_no_sharing
from pal_slurm.daemon.state import DaemonState, alive_of, opened, users_path
from pal_slurm.daemon.wake import Waker
from pal_slurm.daemon.writer import Writer
from pal_slurm.errors import ConfigError
from pal_slurm.guard import Rules
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.slurm.port import Capabilities, SchedulerSetup, Slurm
from pal_slurm.store import MoveRepo, Store
from pal_slurm.store.samples import SampleRepo


@dataclass
class Pald:
    """As one pal.yaml and one slurm.conf have it; another of either is another Pald, of the same state."""

    state: DaemonState
    config: Config
    setup: SchedulerSetup
    caps: Capabilities
    cycle: Cycle
    waker: Waker
    told: tuple[str, ...] | None = None  # what `palctl status` shows of us; None: not known
    refused: str = ""  # why the pal.yaml that lies there is not the one that counts

    @property
    def leader(self) -> Leader:
        return self.state.leader

    @property
    def store(self) -> Store:
        return self.state.store

    @property
    def faults(self) -> Faults:
        return self.state.faults

    def describe(self) -> str:
        return (
            f"cluster {self.setup.cluster_name}, Slurm {self.caps.release} through {self.state.slurm.name}, "
            f"actuator {self.config.actuator}, policy {self.cycle.composition.name}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with us."""
        seen, state = self.cycle.seen, self.state
        said = (
            seen.report.note if seen is not None and seen.report.end == "clock" else "",
            self.refused,
            state.figures.trouble,
            state.users.trouble,
            state.preempting.note if self.config.lease.spare_preempting else "",
            state.faults.note,
            self.cycle.movers.note,
            *state.entitling.notes,
            self._no_sharing,
            state.gpu_limits.note,
            state.learner.note,
            state.forgetter.note,
        )
        return tuple(filter(None, said))

    @property
    def _no_sharing(self) -> str:
        """Why nobody shares a GPU where the site wants it."""
        if not self.config.sharing.enabled or self.cycle.rules.parts:
            return ""
        why = why_no_sharing(self.config, self.caps, self.setup, self.cycle.rules.exact_slots)
        return f"no two jobs get one GPU: {why}"

    def show(self, report: CycleReport, now: float) -> None:
        """What this cycle saw, for others to see."""
        config = self.config
        told = ShownBeside(
            self.setup.cluster_name, config.actuator, self.cycle.composition.name, config.cycle.interval_s, self.notes,
            self.setup.private, config.page.view(config.cycle.alive_file), self.cycle.composition.fill,
        )  # fmt: skip
        self.state.showing.begin_when_due(self.cycle.seen, report, told, now)

    def reloaded(self, config: Config) -> Pald:
        """The same by another configuration; this one is not to be used any more, unless that fails."""
        if stay := [key for key in NEED_RESTART if getattr(config, key) != getattr(self.config, key)]:
            raise ConfigError(f"{', '.join(stay)}: a change of this needs a restart of pald")
        setup = self.state.slurm.setup()
        made = assembled(config, setup, self.state)
        if self.state.back.begin(self.config.actuator, config.actuator):
            self.state.alive.gone()  # no more leases
        self.state.entitling.ask_anew()
        self.state.gpu_limits.ask_anew()
        return made

    def asked_anew(self) -> Pald:
        """The same by slurm.conf as it is now; itself, where that says nothing else for what matters to us."""
        setup = self.state.slurm.setup()
        if (setup, self.state.slurm.capabilities()) == (self.setup, self.caps):
            return self
        return replace(assembled(self.config, setup, self.state), told=self.told, refused=self.refused)

    def close(self) -> None:
        self.state.close()


def build(config: Config, clock: Clock, slurm: Slurm | None = None) -> Pald:
    """`slurm`: talk to that one, and not to the one that the configuration names."""
    composition_of(config.policy)  # a mistake there is told before anything is opened
    state, setup = opened(config, clock, slurm)
    try:
        return assembled(config, setup, state)
    except BaseException:
        state.slurm.close()
        state.store.close()
        raise


def assembled(config: Config, setup: SchedulerSetup, state: DaemonState) -> Pald:
    """What can fail comes first: then the state is as it was."""
    composition, caps = composition_of(config.policy), state.slurm.capabilities()
    rules = rules_of(config, caps, setup)
    state.config, state.paces = config, state.paces.of(config.budget)
    state.slurm.movable(config.moves.qos, config.moves.partitions)
    _replaced(config, state)
    writer = Writer(
        slurm=state.slurm,
        ledger=state.ledger,
        leader=state.leader,
        clock=state.clock,
        entries=state.entries,
        alive=state.alive,
        budget=state.paces.edits,
        max_age_s=config.cycle.max_age_s,
        starts=state.paces.starts,
        keeps=state.paces.keeps,
        rights=state.rights,
    )
    movers = Movers(
        MoveRepo(state.store, state.cluster),
        state.ledger,
        writer,
        lambda job: SampleRepo(state.store).of_job(state.cluster, str(job)),
        resuming=state.resuming,
        memory=state.movers,
    )
    cycle = Cycle(
        slurm=state.slurm,
        books=_books(config, state),
        composition=composition,
        config=config,
        rules=rules,
        pace=state.paces.reads,
        movers=movers,
        leases=LeaseRules(most_s=int(config.lease.max_s), margin_s=max(1, round(config.lease.margin_s))),
        entries=state.entries,
        writer=writer,
        past=state.past,
        rivals=state.rivals,
        preempting=state.preempting,
        back=state.back,
        faults=state.faults,
    )
    wake_file = Path(config.cycle.wake_file) if config.cycle.wake_file else None
    return Pald(state, config, setup, caps, cycle, Waker(state.clock, state.slurm, wake_file, bell=state.bell))


def _books(config: Config, state: DaemonState) -> Books:
    return Books(
        ledger=state.ledger,
        decisions=state.decisions,
        switches=state.switches,
        observer=state.observer,
        forgetter=state.forgetter,
        knowledge=KnowledgeKeeper(state.store, config, cluster=state.cluster),
        learner=state.learner,
        memory=state.memory,
        entitling=state.entitling,
        gpu_limits=state.gpu_limits,
    )


def _replaced(config: Config, state: DaemonState) -> None:
    """The sign of life, and where users ask (beside it, where nothing else is said), if they are elsewhere now."""
    fresh = alive_of(config)
    if fresh.path != state.alive.path:
        if state.alive.given:
            state.alive.gone()  # nobody is to believe in the old one
        state.alive = fresh
    state.users = state.users.at(users_path(config))


def rules_of(config: Config, caps: Capabilities, setup: SchedulerSetup) -> Rules:
    """Devices are named only where the release can also take the names back; the site may ask for nodes only."""
    exact = caps.exact_slots and (config.precision == "slots" or (config.precision == "auto" and caps.restore_untyped))
    return Rules(
        setup.disable_job_shrink, exact, config.lease.margin_s, parts=not why_no_sharing(config, caps, setup, exact),
        accounts=setup.accounts_hold, preempts_by_tier=setup.preempts_by_tier,
    )  # fmt: skip
