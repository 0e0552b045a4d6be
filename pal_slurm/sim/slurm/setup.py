"""How a simulated Slurm is set up. In: nothing. Out: SlurmSetup."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlurmSetup:
    """What slurm.conf would say, and how long slurmctld takes to answer."""

    release: str = "26.05.5"
    cluster: str = "sim"
    parameters: str = "disable_job_shrink,sched_interval=60,bf_interval=30"
    plugins: str = "lua"
    task_prolog: str = "/usr/lib/pal-slurm/pal_task_prolog"
    preempts_by_tier: bool = False  # told, and not modelled
    accounts_hold: bool = True
    private: tuple[str, ...] = ()
    main_s: float = 60.0
    backfill_s: float = 30.0
    backfill_depth: int = 100
    completes_s: float = 3.0  # a requeued job is COMPLETING for so long, where its manners don't say
    kill_wait_s: float = 30.0
    ends_open: bool = (
        False  # nodes tell what a job that is COMPLETING holds as free, as Slurm's do; nothing starts there
    )
    limits_kill: bool = True
    read_s: float = 0.005  # a question, and for each job in the answer:
    read_job_s: float = 1e-5
    edit_s: float = 0.001
