"""pald: the daemon. In: a command line. Out: an exit code; one line per cycle on standard error."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from pal_slurm import __version__
from pal_slurm.cli.say import complain
from pal_slurm.errors import PalError
from pal_slurm.words import plain


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pald")
@click.option("--config", type=click.Path(path_type=Path), help="pal.yaml; default: $PAL_CONFIG, else /etc/pal-slurm.")
@click.option("--once", is_flag=True, help="One cycle, then end; exit code 75 when it could not be done.")
@click.option("--dry-run", is_flag=True, help="As `actuator: shadow`: decide and write down, change nothing in Slurm.")
@click.option("--check-config", is_flag=True, help="Only say what is wrong with pal.yaml; exit code 78 if anything is.")
@click.option("-v", "--verbose", is_flag=True, help="More in the log.")
def pald(config: Path | None, once: bool, dry_run: bool, check_config: bool, verbose: bool) -> None:
    """Place pending Slurm GPU jobs on the GPUs that suit them.

    SIGHUP reloads pal.yaml (a wrong one is refused and the old one stays), SIGTERM ends cleanly.
    """
    from pal_slurm.config import config_path, load

    path = config_path(config)
    if check_config:
        load(path)
        click.echo(f"{path} is right")
        return
    log_to_stderr(verbose)
    from pal_slurm.daemon.main import serve

    sys.exit(serve(path, once=once, dry_run=dry_run))


def log_to_stderr(verbose: bool) -> None:
    """`<N>` is how the journal learns the severity; on a terminal the time is worth more."""
    to_terminal = sys.stderr.isatty()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Terminal() if to_terminal else _Journal())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)


_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class _Journal(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        severity = _SEVERITY.get(record.levelno, 6)
        return "\n".join(f"<{severity}>{plain(line)}" for line in super().format(record).split("\n"))


class _Terminal(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(plain, super().format(record).split("\n")))


def main() -> None:
    try:
        pald(prog_name="pald")
    except PalError as error:
        complain("pald", error)
        sys.exit(error.exit_code)
