"""pause and resume: a file that works with the database away, and a row that every host sees. In: config, store."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.daemon.edits import AFTER_S
from pal_slurm.errors import ConfigError, StoreError
from pal_slurm.model import Job
from pal_slurm.store import Pause, Store, Switches
from pal_slurm.words import digits

MOST_BYTES = 4096  # of the file
NO_REASON = "no reason given"  # an empty one would look like no pause


def pause(config: Config, store: Store | None, reason: str, now: float) -> None:
    """The file first: with it pald pauses even when the database can't be written."""
    path = Path(config.pause_file())
    try:
        _put(path, f"{now:.0f} {reason}\n")
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
        since, _, reason = _text(path).strip().partition(" ")
        return Pause(reason or NO_REASON, float(since) if digits(since) else 0.0)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP):  # its presence is enough
            return Pause(f"{path} is there, and can't be read", 0.0)
        raise StoreError(f"{path} can't be read: {error.strerror}") from error
    return None if switches is None else switches.paused()


def _put(path: Path, text: str) -> None:
    """A new file in place of whatever stands there: the directory is pald's user's, and we may be root."""
    fresh = f".{path.name}.{secrets.token_hex(8)}"
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(fresh, flags, 0o644, dir_fd=directory)
        try:
            os.fchmod(fd, 0o644)  # pald reads it as another user, whatever root's umask
            os.write(fd, text.encode())
            os.replace(fresh, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(fresh, dir_fd=directory)
            raise
        finally:
            os.close(fd)
    finally:
        os.close(directory)


def _text(path: Path) -> str:
    """Its beginning; no link is followed, and no pipe or device waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, MOST_BYTES).decode(errors="replace")
    except BlockingIOError:  # a pipe: its presence is enough
        return ""
    finally:
        os.close(fd)


def to_let_go(pending: Iterable[Job], now: float) -> dict[int, Job]:
    """Those that wait for us, by job; to let go of one again that starts in a moment would put it off for ever."""
    return {job.id: job for job in pending if job.waits_for_us(now) and not starts_soon(job, now)}


def starts_soon(job: Job, now: float) -> bool:
    return job.restarts > 0 and not job.required_nodes and job.eligible is not None and job.eligible <= now + AFTER_S
