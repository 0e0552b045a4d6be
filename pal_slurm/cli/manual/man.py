"""A man page in roff. In: Command, Page. Out: text for man(7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pal_slurm.cli.manual.pages import Page, Pairs
from pal_slurm.cli.manual.tree import Command, Option


def man_page(program: Command, page: Page, version: str) -> str:
    lines = [*head(page, version), ".SH SYNOPSIS", *_synopsis(program), ".SH DESCRIPTION", *_about(program)]
    lines += [".SH OPTIONS", *_options(program.options)]
    if program.commands:
        lines.append(".SH COMMANDS")
        for command in program.walk():
            if command is not program:
                lines += _command(command)
    return finish(lines, page)


def head(page: Page, version: str) -> list[str]:
    # No date: the same source gives the same file on every day.
    title = f'.TH "{page.name.upper()}" "{page.section}" "" "pal-slurm {version}" "pal-slurm"'
    return [title, ".nh", ".ad l", ".SH NAME", f"{roff(page.name)} \\- {roff(page.purpose)}"]


def finish(lines: list[str], page: Page) -> str:
    for title, pairs in (
        ("SIGNALS", page.signals),
        ("EXIT STATUS", page.exits),
        ("ENVIRONMENT", page.environment),
        ("FILES", page.files),
    ):
        if pairs:
            lines += [f".SH {title}", *_pairs(pairs)]
    lines += [".SH SEE ALSO", ", ".join(map(_reference, page.see))]
    return "\n".join(lines) + "\n"


_LONG = 40  # a longer word may be broken after a comma or a bar, else it would stand out over the margin


def roff(text: str) -> str:
    """Text that roff shows as it is: no escapes, no requests, ASCII hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    if any(len(word) > _LONG for word in text.split()):
        text = re.sub(r"[,|](?=\S)", r"\g<0>\\:", text)
    return f"\\&{text}" if text.startswith(".") else text


def _reference(text: str) -> str:
    name, _, section = text.partition("(")
    return f"\\fB{roff(name)}\\fR({section}"


def _synopsis(program: Command) -> Iterator[str]:
    yield f"\\fB{roff(program.name)}\\fR {roff(program.usage)}".rstrip()


def _about(command: Command) -> Iterator[str]:
    for paragraph in command.about:
        yield ".PP"
        yield roff(paragraph)


def _command(command: Command) -> Iterator[str]:
    yield f'.SS "{roff(" ".join(command.path))}"'
    yield f"\\fB{roff(' '.join(command.path))}\\fR {roff(command.usage)}".rstrip()
    yield from _about(command)
    for argument in command.arguments:
        if argument.help or argument.choices:
            yield from _pair(roff(argument.name), argument.help, argument.choices)
    yield from _options(option for option in command.options if "--help" not in option.names)


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        metavar = f" \\fI{roff(option.metavar)}\\fR" if option.metavar else ""
        shown = () if all(choice in option.metavar for choice in option.choices) else option.choices
        yield from _pair(names + metavar, f"{option.help} {option.range}", shown)


def _pair(term: str, text: str, choices: tuple[str, ...] = ()) -> Iterator[str]:
    yield ".TP"
    yield term
    told = f" One of {', '.join(choices)}." if choices else ""
    yield roff((text + told).strip()) or "\\&"


def _pairs(pairs: Pairs) -> Iterator[str]:
    for term, text in pairs:
        yield from _pair(f"\\fB{roff(term)}\\fR", text)
