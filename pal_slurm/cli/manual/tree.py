"""A program as a tree of commands. In: a click command or an argparse parser. Out: Command, for pages and scripts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    metavar: str  # empty: it takes no value
    help: str
    choices: tuple[str, ...] = ()
    files: bool = False  # its value is a file or a directory
    range: str = ""  # its default and limits, as --help ends


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    help: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    path: tuple[str, ...]  # ("palctl", "config", "check")
    usage: str  # what may stand after the path, on one line
    about: tuple[str, ...]  # paragraphs
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    commands: tuple[Command, ...] = ()

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def summary(self) -> str:
        """The first sentence, on one line."""
        first = self.about[0] if self.about else ""
        return re.split(r"(?<=[.;:])\s", first, maxsplit=1)[0].rstrip(".;:")

    def walk(self) -> Iterator[Command]:
        """This command and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def paragraphs(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip())


def from_click(command: click.Command, *path: str, parent: click.Context | None = None) -> Command:
    context = click.Context(command, parent, path[-1], **command.context_settings)
    inner: tuple[Command, ...] = ()
    if isinstance(command, click.Group):
        named = ((name, command.get_command(context, name)) for name in command.list_commands(context))
        inner = tuple(from_click(found, *path, name, parent=context) for name, found in named if found is not None)
    params = command.get_params(context)
    return Command(
        path=path,
        usage=" ".join(command.collect_usage_pieces(context)),
        about=paragraphs(command.help or command.short_help or ""),
        options=tuple(_click_option(p, context) for p in params if isinstance(p, click.Option) and not p.hidden),
        arguments=tuple(Argument(p.make_metavar(context)) for p in params if isinstance(p, click.Argument)),
        commands=inner,
    )


def _click_option(option: click.Option, context: click.Context) -> Option:
    takes = not (option.is_flag or option.count)
    choices = tuple(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ()
    _, told = option.get_help_record(context) or ("", "")
    return Option(
        names=tuple(sorted((*option.opts, *option.secondary_opts), key=len)),
        metavar=option.make_metavar(context) if takes else "",
        help=option.help or "",
        choices=choices,
        files=isinstance(option.type, click.Path | click.File),
        range=told.removeprefix(option.help or "").strip(),
    )


def from_argparse(parser: argparse.ArgumentParser, *path: str, about: str = "") -> Command:
    inner: tuple[Command, ...] = ()
    options: list[Option] = []
    arguments: list[Argument] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            inner = tuple(from_argparse(sub, *path, name, about=helps[name]) for name, sub in action.choices.items())
        elif action.option_strings:
            options.append(_argparse_option(parser, action))
        else:
            name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
            arguments.append(Argument(name, _expanded(parser, action), _choices(action)))
    usage = " ".join(parser.format_usage().split()).removeprefix("usage:").strip()
    return Command(
        path=path,
        usage=usage.removeprefix(" ".join(path)).strip(),
        about=paragraphs(parser.description or _sentence(about)),
        options=tuple(options),
        arguments=tuple(arguments),
        commands=inner,
    )


def _argparse_option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    metavar = ""
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    names = tuple(sorted(action.option_strings, key=len))
    files = metavar in ("FILE", "DIR", "PATH")
    return Option(names, metavar, _expanded(parser, action), _choices(action), files)


def _choices(action: argparse.Action) -> tuple[str, ...]:
    choices: Iterable[Any] = action.choices or ()
    return tuple(map(str, choices))


def _expanded(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """The help with %(default)s filled in."""
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") or not text else ".")
