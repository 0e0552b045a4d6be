"""Texts of others on a terminal. In: text. Out: the same lines, with nothing in them that steers it (P9)."""

from __future__ import annotations

import click

from pal_slurm.words import plain


def say(text: object, *, err: bool = False) -> None:
    click.echo("\n".join(map(plain, str(text).split("\n"))), err=err)


def complain(program: str, error: Exception | str) -> None:
    """An error's sentences on standard error."""
    for line in str(error).splitlines():
        say(f"{program}: {line}", err=True)
