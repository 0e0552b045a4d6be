"""Completion for bash. In: Command. Out: a script that starts no program of ours; a TAB asks Slurm at most."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.cli.manual.live import asked
from pal_slurm.cli.manual.tree import Command


def script(program: Command) -> str:
    function = "_" + program.name.replace("-", "_")
    commands = [command for command in program.walk() if command is not program]
    lines = [
        f"# bash completion of {program.name}; written by pal_slurm.cli.manual",
        f"{function}() {{",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= i",
        f"    local path={program.name}",
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "$path ${COMP_WORDS[i]}" in',
        *_patterns([f"{path} {name}" for path, name, _ in _valued(program)], "((i++))"),
        *_patterns([" ".join(command.path) for command in commands], 'path="$path ${COMP_WORDS[i]}"'),
        "        esac",
        "    done",
        '    case "$path $prev" in',
        *(f"        {_quoted(f'{path} {name}')}) words={words} ;;" for path, name, words in _valued(program)),
        "        *)",
        '            case "$path" in',
    ]
    for command in program.walk():
        options = " ".join(name for option in command.options for name in option.names)
        names = " ".join(inner.name for inner in command.commands) or " ".join(
            choice for argument in command.arguments for choice in argument.choices
        )
        live = next(filter(None, (asked(argument.name) for argument in command.arguments)), "")
        path, words = _quoted(" ".join(command.path)), f"$({live})" if live else _quoted(names)
        lines.append(f"                {path}) [[ $cur == -* ]] && words='{options}' || words={words} ;;")
    lines += [
        "            esac ;;",
        "    esac",
        "    COMPREPLY=()",
        '    [[ $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")',
        "}",
        f"complete -o bashdefault -o default -F {function} {program.name}",
    ]
    return "\n".join(lines) + "\n"


def _valued(program: Command) -> Iterator[tuple[str, str, str]]:
    """Path and name of each option that takes a value, and the words that it may be, as bash writes them."""
    for command in program.walk():
        for option in command.options:
            if option.metavar:
                live = asked(option.metavar)
                for name in option.names:
                    yield " ".join(command.path), name, f"$({live})" if live else _quoted(" ".join(option.choices))


def _patterns(patterns: list[str], action: str) -> Iterator[str]:
    if patterns:
        yield "            " + " | \\\n            ".join(map(_quoted, patterns)) + f") {action} ;;"


def _quoted(text: str) -> str:
    return f"'{text}'"
