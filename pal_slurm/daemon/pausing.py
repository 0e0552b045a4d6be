"""pause and resume: a file that works with the database away, and a row that every host sees. In: config, store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.daemon.edits import AFTER_S
from pal_slurm.errors import ConfigError, StoreError
from pal_slurm.model import Job
from pal_slurm.store import Pause, Store, Switches
from pal_slurm.words import digits

NO_REASON = "no reason given"  # an empty one would look like no pause


def pause(config: Config, store: Store | None, reason: str, now: float) -> None:
    """The file first: with it pald pauses even when the database can't be written."""
    path = Path(config.pause_file())
    try:
        path.write_text(f"{now:.0f} {reason}\n", encoding="utf-8")
        path.chmod(0o644)  # pald reads it as another user, whatever root's umask
    except OSError as error:
        if store is None:
            raise ConfigError(f"{path} can't be written: {error.strerror}; pald was not paused") from error
    if store is not None:
        Switches(store).pause(reason, now)


def resume(config: Config, store: Store | None) -> None:
    path = Path(config.pause_file())
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} can't be removed: {error.strerror}; pald is still paused") from error
    if store is not None:
        Switches(store).resume()


def paused(config: Config, switches: Switches | None) -> Pause | None:
    """Why and since when pald is paused; None: it is not. A database that can't be read does not un-pause it."""
    path = Path(config.pause_file())
    try:
        since, _, reason = path.read_text(encoding="utf-8", errors="replace").strip().partition(" ")
        return Pause(reason or NO_REASON, float(since) if digits(since) else 0.0)
    except FileNotFoundError:
        pass
    except PermissionError:  # its presence is enough
        return Pause(f"{path} is there, and can't be read", 0.0)
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror}") from error
    return None if switches is None else switches.paused()


def to_let_go(pending: Iterable[Job], now: float) -> dict[int, Job]:
    """Those that wait for us, by job; to let go of one again that starts in a moment would put it off for ever."""
    return {job.id: job for job in pending if job.waits_for_us(now) and not starts_soon(job, now)}


def starts_soon(job: Job, now: float) -> bool:
    return job.restarts > 0 and not job.required_nodes and job.eligible is not None and job.eligible <= now + AFTER_S
