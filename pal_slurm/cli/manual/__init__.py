"""Man pages and shell completions, of the same source as --help. In: the programs. Out: files below `share/`."""

from __future__ import annotations

from pal_slurm import __version__
from pal_slurm.cli.manual import bash, fish, zsh
from pal_slurm.cli.manual.config_page import config_page
from pal_slurm.cli.manual.man import man_page
from pal_slurm.cli.manual.pages import PAGES, Page
from pal_slurm.cli.manual.tree import Command, from_argparse, from_click


def programs() -> dict[str, Command]:
    from pal_slurm.cli.pal_page import pal_page
    from pal_slurm.cli.palctl import palctl
    from pal_slurm.cli.pald import pald
    from pal_slurm.probe.main import build_parser
    from pal_slurm.probe.running.main import build_parser as build_pal_run

    return {
        "palctl": from_click(palctl, "palctl"),
        "pald": from_click(pald, "pald"),
        "pal-page": from_click(pal_page, "pal-page"),
        "pal-probe": from_argparse(build_parser(), "pal-probe"),
        "pal-run": from_argparse(build_pal_run(), "pal-run"),
    }


def manual() -> dict[str, str]:
    """Each file by its place below an installation's `share/`."""
    files = {f"man/man5/{PAGES['pal.yaml'].file}": config_page(PAGES["pal.yaml"], __version__)}
    for name, program in programs().items():
        page = PAGES[name]
        files[f"man/man{page.section}/{page.file}"] = man_page(program, page, __version__)
        files[f"bash-completion/completions/{name}"] = bash.script(program)
        files[f"zsh/site-functions/_{name}"] = zsh.script(program)
        files[f"fish/vendor_completions.d/{name}.fish"] = fish.script(program)
    return files


__all__ = ["PAGES", "Command", "Page", "manual", "programs"]
