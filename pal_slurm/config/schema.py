"""Every key of pal.yaml: type, default, unit and one line of why. In: nothing. Out: `Config` and its sections.

The only place, with `apps.py`, `moves.py`, `pools.py`, `sharing.py` and `page.py`, where a key is described: the
checker, `palctl config explain`, the sample file and its tests all read these annotations.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from pal_slurm.config.apps import AppEntry, PatternEntry
from pal_slurm.config.moves import ExcludeSection, MovesSection
from pal_slurm.config.page import PageSection, UsersSection
from pal_slurm.config.pools import PoolsSection
from pal_slurm.config.profile import ProfileSection
from pal_slurm.config.section import Section, why
from pal_slurm.config.sharing import SharingSection
from pal_slurm.model import App, Apps


class ClusterSection(Section, frozen=True):
    backend: Annotated[
        Literal["auto", "cli", "pyslurm"],
        why("How to talk to Slurm; auto takes pyslurm where its worker starts and matches the release, else cli."),
    ] = "auto"
    bin_dir: Annotated[str, why("Where squeue, scontrol, sinfo and sdiag are; empty: found on PATH.")] = ""
    worker_command: Annotated[
        tuple[str, ...], why("Words put before worker_python, for example a wrapper that enters a container.")
    ] = ()
    worker_python: Annotated[
        str, why("Interpreter that has pyslurm built against this site's Slurm.", min_length=1)
    ] = "python3"
    models: Annotated[
        tuple[str, ...],
        why("Node features that name a GPU model; none: the GRES type, where it is no slot. Same as in pal_lua.conf."),
    ] = ()
    gres_conf: Annotated[
        str,
        why("gres.conf whose `Links=` say which GPUs of a node are linked directly (NVLink); empty: all count as so."),
    ] = ""
    timeout_s: Annotated[
        float, why("No answer from Slurm in this time counts as slurmctld being unreachable.", "s", ge=0.1, le=300)
    ] = 10.0


class DatabaseSection(Section, frozen=True):
    url: Annotated[
        str,
        why("SQLAlchemy URL without a password; empty: SQLite at state_dir/pal.sqlite. PAL_DATABASE_URL wins over it."),
    ] = ""
    url_file: Annotated[
        str, why("File whose first line is the URL, for URLs with a password; readable by its owner only.")
    ] = ""
    keep_days: Annotated[
        float,
        why("Older intents, decisions, outcomes and what jobs showed are forgotten.", "days", ge=1, le=36500),
    ] = 90.0
    keep_runs_days: Annotated[
        float,
        why(
            "Older raw runs are forgotten; what each GPU did in each night, and scores, never.", "days", ge=30, le=36500
        ),
    ] = 730.0


class PolicySection(Section, frozen=True):
    name: Annotated[
        str, why("A named composition: pal (ours), packed, gavel/hierarchical ...; the keys below change parts of it.")
    ] = "pal"
    order: Annotated[
        str, why("In which order jobs are considered; slurm, also where it is empty, is Slurm's own priority.")
    ] = ""
    placement: Annotated[str, why("Which GPUs; lv is the least step time over every span. Empty: as named.")] = ""
    patience: Annotated[
        str,
        why("Start now or wait for a better place: earlier-finish, none, fixed(3600,7200), dally. Empty: as named."),
    ] = ""
    pools: Annotated[
        Literal["", "prices", "best", "fastest"],
        why(
            "Which GPU model a job takes: by prices, what it costs those who wait counted too, or whichever is "
            "best for it (fastest is an older word for it). Empty: as named; pal goes by prices."
        ),
    ] = ""
    entitlement: Annotated[
        str,
        why(
            "How much of each GPU model each job is owed: none, or gavel/OBJECTIVE (gavel/hierarchical: accounts by "
            "Slurm's fair-share tree). Who waits and is owed most comes first; nobody is stopped for it. Empty: as "
            "named."
        ),
    ] = ""
    moving: Annotated[
        Literal["", "none", "value"],
        why("How running jobs make way where `actuator` is move: value (by what it brings), none. Empty: value."),
    ] = ""
    preemption: Annotated[Literal["", "none"], why("Means nothing any more; kept so that older files are taken.")] = ""
    backfill: Annotated[
        bool | None, why("Later jobs may fill holes where that delays no job ahead of them; null: as named.")
    ] = None


class CanarySection(Section, frozen=True):
    percent: Annotated[
        float,
        why(
            "Share of the jobs, drawn by job id: the same job is always in or out; an array as one.", "%", ge=0, le=100
        ),
    ] = 100.0
    partitions: Annotated[
        tuple[str, ...], why("Only jobs all of whose partitions are among these; empty: whatever the partition.")
    ] = ()


class LeaseSection(Section, frozen=True):
    length_s: Annotated[
        float,
        why(
            "How long a new job waits for pald, longer where pald looks seldom; pal_lua.conf's own `lease` wins.",
            "s",
            ge=2,
            le=600,
        ),
    ] = 20.0
    max_s: Annotated[
        float, why("Longest renewed lease: if pald dies, no job waits longer than this.", "s", ge=2, le=600)
    ] = 600.0
    margin_s: Annotated[
        float,
        why(
            "A lease that ends within this time is renewed before it is used, so no edit meets a start.",
            "s",
            ge=0.5,
            le=60,
        ),
    ] = 3.0
    spare_preempting: Annotated[
        bool,
        why(
            "Jobs of a QOS that may preempt others, by Slurm's own word, get no lease; false: only pal_lua.conf counts."
        ),
    ] = True
    let_through: Annotated[
        bool,
        why("Jobs for which nothing better than Slurm's own choice can come start at once, without a lease."),
    ] = True


class CycleSection(Section, frozen=True):
    interval_s: Annotated[float, why("A cycle runs at least this often.", "s", ge=0.2, le=60)] = 5.0
    wake_file: Annotated[
        str, why("A byte appended here starts a cycle at once (job_submit.lua does so); empty: not watched.")
    ] = "/run/pal-slurm/wake"
    alive_file: Annotated[
        str, why("Gets the time of each cycle; job_submit.lua gives no lease when it is old. Empty: not written.")
    ] = "/run/pal-slurm/alive"
    max_age_s: Annotated[
        float, why("Nothing is written to Slurm on the strength of a snapshot older than this.", "s", ge=1, le=60)
    ] = 15.0


class BudgetSection(Section, frozen=True):
    edits_per_s: Annotated[
        float,
        why(
            "Most job updates sent to slurmctld, averaged; starts and leases have shares beside.",
            "edits/s",
            gt=0,
            le=1000,
        ),
    ] = 20.0
    start_share: Annotated[
        float,
        why("Most of the wall time that updates which start jobs may take, beside edits_per_s.", "share", ge=0, le=0.5),
    ] = 0.05
    keep_share: Annotated[
        float,
        why("Most of the wall time that keeping leases may take, beside edits_per_s.", "share", ge=0, le=0.5),
    ] = 0.1
    read_share: Annotated[
        float,
        why(
            "Most of the wall time that reading the queue may take; cycles are spaced to keep it.",
            "share",
            gt=0,
            le=0.5,
        ),
    ] = 0.05


class LeaderSection(Section, frozen=True):
    lock_file: Annotated[str, why("Held by the one pald that writes; empty: state_dir/pald.lock.")] = ""
    ttl_s: Annotated[
        float,
        why(
            "The database row of a leader that is silent for this long may be taken by another host.", "s", ge=5, le=600
        ),
    ] = 30.0


class ClassesSection(Section, frozen=True):
    names: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Za-z0-9_-]{0,15}$")], ...],
        why("Classes of applications, most sensitive to a slow GPU first.", min_length=1),
    ] = ("A", "B", "C")
    default: Annotated[str, why("What an application that nobody has described is taken for.")] = "A"


class ScoresSection(Section, frozen=True):
    stale_after_days: Annotated[
        float, why("A score older than this counts as unknown: neutral placement.", "days", gt=0, le=3650)
    ] = 30.0


class LearningSection(Section, frozen=True):
    enabled: Annotated[bool, why("pald takes in profile.spool and learns scores from jobs' step times.")] = True
    interval_s: Annotated[float, why("How often it looks.", "s", ge=1, le=3600)] = 60.0


class MetricsSection(Section, frozen=True):
    listen: Annotated[
        str,
        why(
            "ADDRESS:PORT for Prometheus, or unix:PATH, a socket for pald's group; empty: none. 9341 belongs to "
            "Slurm's own exporters."
        ),
    ] = "127.0.0.1:9752"


class Config(Section, frozen=True):
    cluster: Annotated[ClusterSection, why("How pald reaches Slurm.")] = ClusterSection()
    database: Annotated[DatabaseSection, why("Where scores, intents and outcomes are kept.")] = DatabaseSection()
    actuator: Annotated[
        Literal["shadow", "exclude", "pin", "move"],
        why("shadow only decides; exclude keeps jobs off slow nodes; pin places them; move also moves running ones."),
    ] = "shadow"
    policy: Annotated[PolicySection, why("How jobs and GPUs are chosen.")] = PolicySection()
    precision: Annotated[
        Literal["auto", "slots", "node"],
        why("What a pin names: exact devices where each has a GRES type of its own, or nodes; auto: as found."),
    ] = "auto"
    canary: Annotated[CanarySection, why("Which leased jobs are pinned; the others go plain.")] = CanarySection()
    lease: Annotated[LeaseSection, why("The start time, a little ahead, that a job waits for pald.")] = LeaseSection()
    cycle: Annotated[CycleSection, why("When pald looks and decides.")] = CycleSection()
    budget: Annotated[BudgetSection, why("How much of slurmctld's time pald may take.")] = BudgetSection()
    moves: Annotated[MovesSection, why("Which running jobs may be moved to better GPUs.")] = MovesSection()
    pools: Annotated[PoolsSection, why("Which GPU models a job may have, where there are several.")] = PoolsSection()
    sharing: Annotated[SharingSection, why("Two jobs on one GPU.")] = SharingSection()
    exclude: Annotated[ExcludeSection, why("Where `actuator: exclude` keeps jobs off.")] = ExcludeSection()
    leader: Annotated[LeaderSection, why("Only one pald writes.")] = LeaderSection()
    classes: Annotated[ClassesSection, why("Families of applications with the same sensitivity.")] = ClassesSection()
    apps: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")], AppEntry],
        why("Known applications by the NAME of their `app:NAME` tag; these win over what the database says."),
    ] = msgspec.field(default_factory=dict)
    patterns: Annotated[
        tuple[PatternEntry, ...],
        why(
            "Applications of jobs that nobody tagged, as {app: resnet50, job_name: 'resnet*'}; also by script (path) "
            "or tag (one that nobody described). * and ? as in a shell; the first that fits wins."
        ),
    ] = ()
    scores: Annotated[ScoresSection, why("How scores are judged.")] = ScoresSection()
    profile: Annotated[ProfileSection, why("Measuring the GPUs at night, through Slurm.")] = ProfileSection()
    learning: Annotated[LearningSection, why("Learning from what jobs showed.")] = LearningSection()
    state_dir: Annotated[str, why("pald's own directory, on a local disk.", min_length=1)] = "/var/lib/pal-slurm"
    metrics: Annotated[MetricsSection, why("Figures for Prometheus.")] = MetricsSection()
    users: Annotated[UsersSection, why("What users may ask pald of their own jobs.")] = UsersSection()
    page: Annotated[PageSection, why("pal-page: the live page, a process of its own.")] = PageSection()

    def moves_jobs(self) -> bool:
        """Whether running jobs may be moved at all."""
        return self.actuator == "move" and self.moves.mode != "off" and self.policy.moving != "none"

    def shares_gpus(self) -> bool:
        """Whether two jobs may have one GPU at all."""
        return self.sharing.enabled and self.actuator in ("pin", "move")

    def lock_file(self) -> str:
        return self.leader.lock_file or f"{self.state_dir}/pald.lock"

    def pause_file(self) -> str:
        """Its presence pauses pald even when the database can't be written."""
        return f"{self.state_dir}/paused"

    def known_apps(self) -> Apps:
        """The admin's own map, and what an unknown application is taken for."""
        known = {name: entry.app(name, self.classes.default) for name, entry in self.apps.items()}
        return Apps(known, App("?", self.classes.default))
