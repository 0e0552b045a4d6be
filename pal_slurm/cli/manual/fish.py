"""Completion for fish. In: Command. Out: one `complete` line per command and option."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.cli.manual.live import asked
from pal_slurm.cli.manual.tree import Command, Option


def script(program: Command) -> str:
    lines = [f"# fish completion of {program.name}; written by pal_slurm.cli.manual"]
    for command in program.walk():
        lines += _of(command)
    return "\n".join(lines) + "\n"


def _of(command: Command) -> Iterator[str]:
    begin = f"complete -c {command.path[0]} -n {_quoted(_here(command))}"
    if command.commands:
        yield f"{begin} -f"  # a command is due, no file
    for inner in command.commands:
        yield f"{begin} -a {inner.name} -d {_quoted(inner.summary)}"
    for choice in (choice for argument in command.arguments for choice in argument.choices):
        yield f"{begin} -a {_quoted(choice)}"
    for live in filter(None, (asked(argument.name) for argument in command.arguments)):
        yield f"{begin} -f -a {_quoted(f'({live})')}"
    for option in command.options:
        yield f"{begin} {_option(option)}"


def _here(command: Command) -> str:
    """True on a command line that has come as far as this command and no further."""
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.path[1:]]
    if command.commands:
        seen.append("not __fish_seen_subcommand_from " + " ".join(inner.name for inner in command.commands))
    return "; and ".join(seen)


def _option(option: Option) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if live := asked(option.metavar):
        words.append(f"-x -a {_quoted(f'({live})')}")
    elif option.choices:
        words.append(f"-x -a {_quoted(' '.join(option.choices))}")
    elif option.metavar:
        words.append("-r" if option.files else "-x")
    return " ".join([*words, f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
