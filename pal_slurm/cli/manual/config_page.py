"""pal.yaml(5), off the schema. In: the keys. Out: roff."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.cli.manual.man import finish, head, roff
from pal_slurm.cli.manual.pages import Page
from pal_slurm.config import plain
from pal_slurm.config.keys import Key, all_keys, mapped_section, section_of, type_words

_ABOUT = (
    "A YAML file, read when pald or palctl starts and at SIGHUP. Every key may be left out and then has its default. "
    "It is judged strictly: an unknown key, a wrong type or a value out of range is an error that names line, key "
    "and remedy, and all errors are told at once. Aliases and YAML tags are refused.",
    "palctl config check tells what is wrong, palctl config show what is in force, palctl config explain KEY says "
    "what stands here of one key, palctl config sample writes a file with every key.",
    "Secrets: a database URL with a password belongs into the file that database.url_file names (mode 0600), or into "
    "PAL_DATABASE_URL. It is never printed.",
)


def config_page(page: Page, version: str) -> str:
    lines = [*head(page, version), ".SH SYNOPSIS", "/etc/pal\\-slurm/pal.yaml", ".SH DESCRIPTION"]
    for paragraph in _ABOUT:
        lines += [".PP", roff(paragraph)]
    lines.append(".SH KEYS")
    for key in all_keys():
        lines += _key(key)
    lines += [".SH EXAMPLE", ".nf", *map(roff, _EXAMPLE.splitlines()), ".fi"]
    return finish(lines, page)


_EXAMPLE = """\
actuator: pin
canary:
  percent: 10
apps:
  resnet50:
    class: A
    base: {a100: 0.175, v100: 0.31}
"""


def _key(key: Key) -> Iterator[str]:
    if section_of(key.type) is not None or mapped_section(key.type) is not None:
        yield f'.SS "{roff(key.path)}"'
        yield roff(key.why)
        return
    yield ".TP"
    unit = f", {key.unit}" if key.unit else ""
    yield f"\\fB{roff(key.path)}\\fR ({roff(type_words(key.type) + unit)}; default {roff(plain(key.default))})"
    yield roff(key.why)
