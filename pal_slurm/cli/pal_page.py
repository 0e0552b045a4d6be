"""pal-page: the live page. In: a command line. Out: an exit code; HTTP at page.listen of pal.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pal_slurm import __version__
from pal_slurm.cli.pald import log_to_stderr
from pal_slurm.cli.say import complain
from pal_slurm.errors import ConfigError, PalError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pal-page")
@click.option("--config", type=click.Path(path_type=Path), help="pal.yaml; default: $PAL_CONFIG, else /etc/pal-slurm.")
@click.option("--listen", default="", metavar="ADDRESS", help="ADDRESS:PORT or unix:PATH instead of page.listen.")
@click.option("-v", "--verbose", is_flag=True, help="More in the log.")
def pal_page(config: Path | None, listen: str, verbose: bool) -> None:
    """Show who holds which GPU, who waits and why, in a browser.

    It only reads: the database, and what pald writes down of each cycle. SIGTERM ends it.
    """
    import msgspec

    from pal_slurm.config import config_path, load
    from pal_slurm.config.rules import no_address

    settings = load(config_path(config))
    if wrong := no_address(listen):
        raise click.UsageError(f"--listen: {listen!r} {wrong}")
    if listen:
        settings = msgspec.structs.replace(settings, page=msgspec.structs.replace(settings.page, listen=listen))
    log_to_stderr(verbose)
    try:
        from pal_slurm.page.serving import serve
    except ImportError as error:
        raise ConfigError(f"pal-page needs {error.name}: pip install 'pal-slurm[page]'") from error
    serve(settings)


def main() -> None:
    try:
        pal_page(prog_name="pal-page")
    except PalError as error:
        complain("pal-page", error)
        sys.exit(error.exit_code)
