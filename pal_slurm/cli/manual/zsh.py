"""Completion for zsh. In: Command. Out: an autoloaded function per program, one inner function per command."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.cli.manual.live import asked
from pal_slurm.cli.manual.tree import Argument, Command, Option


def script(program: Command) -> str:
    lines = [f"#compdef {program.name}", ""]
    for command in program.walk():
        lines += [f"{_function(command)}() {{", *_body(command), "}", ""]
    return "\n".join([*lines, f'{_function(program)} "$@"']) + "\n"


def _function(command: Command) -> str:
    return "_" + "_".join(command.path).replace("-", "_")


def _body(command: Command) -> Iterator[str]:
    specs = [spec for option in command.options for spec in _option(option)]
    if not command.commands:
        specs += [_argument(argument) for argument in command.arguments] or []
        yield "    _arguments -s \\"
        yield " \\\n".join(f"        {_quoted(spec)}" for spec in specs)
        return
    yield "    local curcontext=$curcontext state line"
    yield "    _arguments -C -s \\"
    yield " \\\n".join(f"        {_quoted(spec)}" for spec in (*specs, "1:command:->command", "*::argument:->rest"))
    yield '    case "$state" in'
    yield "        command)"
    yield "            local -a commands=("
    for inner in command.commands:
        yield f"                {_quoted(inner.name + ':' + _plain(inner.summary))}"
    yield "            )"
    yield "            _describe command commands ;;"
    yield "        rest)"
    yield '            case "$line[1]" in'
    for inner in command.commands:
        yield f"                {inner.name}) {_function(inner)} ;;"
    yield "            esac ;;"
    yield "    esac"


def _option(option: Option) -> Iterator[str]:
    value = ""
    if option.metavar:
        action = _live(option.metavar) or (
            f"({' '.join(option.choices)})" if option.choices else "_files" if option.files else " "
        )
        value = f":{_plain(option.metavar)}:{action}"
    for name in option.names:
        yield f"*{name}[{_plain(option.help)}]{value}"


def _argument(argument: Argument) -> str:
    action = _live(argument.name) or (f"({' '.join(argument.choices)})" if argument.choices else "_files")
    return f"*:{_plain(argument.name)}:{action}"


def _live(metavar: str) -> str:
    return f"{{compadd -- $({asked(metavar)})}}" if asked(metavar) else ""


def _plain(text: str) -> str:
    """Without what _arguments would read as its own: brackets and colons."""
    return text.replace("\\", "").replace("[", "(").replace("]", ")").replace(":", ",")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
