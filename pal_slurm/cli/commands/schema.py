"""palctl schema. In: a command's words. Out: the JSON Schema of what its --json prints."""

from __future__ import annotations

import difflib
import json

import click

from pal_slurm.errors import BadInput


@click.command(name="schema", short_help="The JSON Schema of what a command prints with --json.")
@click.argument("words", nargs=-1, metavar="[COMMAND ...]")
def command(words: tuple[str, ...]) -> None:
    """The JSON Schema of what COMMAND prints with --json; without one, all that there are, by command.

    The number in $id rises when a field goes or means another thing. New fields do not raise it: pass over what you
    do not know.
    """
    from pal_slurm.cli.answers import ANSWERS, schema

    name = " ".join(words)
    if name and name not in ANSWERS:
        near = difflib.get_close_matches(name, ANSWERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(ANSWERS)}"
        raise BadInput(f"no command {name!r} with --json; {hint}")
    told = schema(name) if name else {one: schema(one) for one in ANSWERS}
    click.echo(json.dumps(told, indent=2))
