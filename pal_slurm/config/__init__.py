"""pal.yaml, read strictly. In: a path. Out: a frozen `Config`, or one ConfigError that names every mistake."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pal_slurm.config.apps import AppEntry
from pal_slurm.config.pair_file import PairFile
from pal_slurm.config.read import MAX_BYTES, Mistake, read
from pal_slurm.config.rules import broken_rules
from pal_slurm.config.sample import explain, plain, sample
from pal_slurm.config.schema import CanarySection, Config
from pal_slurm.errors import BadInput, ConfigError
from pal_slurm.model import Sharers

DEFAULT_PATH = Path("/etc/pal-slurm/pal.yaml")
NEED_RESTART = ("database", "cluster", "state_dir", "leader", "metrics", "users")  # of pald, to be taken


def config_path(option: str | Path | None = None) -> Path:
    """The file in use: --config, else PAL_CONFIG, else the default place."""
    return Path(option or os.environ.get("PAL_CONFIG") or DEFAULT_PATH)


def parse(path: Path) -> tuple[Config, list[Mistake]]:
    """What was right in the file, and all its faults; an unreadable file is a fault too."""
    try:
        text = _text_of(path)
    except ConfigError as error:
        return Config(), [Mistake(0, "", str(error), str(path))]
    config, faults, lines = read(text)
    faults = sorted([*faults, *broken_rules(config, lines, {fault.key for fault in faults})])
    if config.sharing.pairs_file.startswith("/"):
        try:
            told_pairs(config)
        except BadInput as error:
            faults.append(Mistake(lines.get("sharing.pairs_file", 0), "sharing.pairs_file", str(error)))
    return config, [replace(fault, file=str(path)) for fault in faults]


def check(path: Path) -> list[Mistake]:
    """Every mistake in the file."""
    return parse(path)[1]


def load(path: Path) -> Config:
    """The file as a Config; a ConfigError that lists every mistake otherwise."""
    config, faults = parse(path)
    if faults:
        raise ConfigError("\n".join(map(str, faults)))
    return config


def told_pairs(config: Config, models: Sequence[str] = ()) -> Mapping[Sharers, float | None]:
    """What pal.yaml and the file that it names say of two on one GPU; None: to be measured.

    BadInput where the file can't be read so."""
    sharing = config.sharing
    told: dict[Sharers, float | None] = {}
    if sharing.pairs_file:
        told |= PairFile(Path(sharing.pairs_file)).pairs().beside
    for pair in sorted(sharing.pairs, key=lambda pair: bool(pair.model)):  # of one model wins over all
        told |= pair.told(models or config.cluster.models)
    return told


def database_url(config: Config, env: Mapping[str, str] = os.environ) -> str:
    """The database in use. May hold a password: print it through `without_password` only."""
    if url := env.get("PAL_DATABASE_URL"):
        return url
    if config.database.url_file:
        return _secret(Path(config.database.url_file))
    return config.database.url or f"sqlite:///{config.state_dir}/pal.sqlite"


def without_password(url: str) -> str:
    """A database URL that may be shown."""
    return re.sub(r"(?<=://)([^/@:]*):.*@", r"\1:***@", url)


def _secret(path: Path) -> str:
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"database.url_file {path} can be read by others; run: chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"database.url_file {path} can't be read: {_said(error)}") from error
    if not lines or not lines[0].strip():
        raise ConfigError(f"database.url_file {path} is empty; its first line must be the database URL")
    return lines[0].strip()


def _text_of(path: Path) -> str:
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IWOTH:
            raise ConfigError(f"can be written by everybody; run: chmod o-w {path}")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"is larger than {MAX_BYTES} bytes; that is no pal.yaml")
        return data.decode("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"does not exist; make one with: palctl config sample > {path}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ConfigError(f"can't be read: {_said(error)}") from error


def _said(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "unreadable") if isinstance(error, OSError) else "not UTF-8 text"


__all__ = [
    "AppEntry", "CanarySection", "Config", "check", "config_path", "database_url", "explain", "load", "parse", "plain",
    "sample", "without_password",
]  # fmt: skip
