"""Strict reading of pal.yaml. In: the text of a file. Out: a Config, or every fault at once, each with line and key.

The text is composed to YAML nodes (which know their lines) and walked beside the schema, so that one mistake hides no
other. Values are built by PyYAML's safe constructor and judged by msgspec.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

import msgspec
import yaml

from pal_slurm.config.keys import all_keys, bare, fields, mapped_section, section_of, type_words
from pal_slurm.config.schema import Config
from pal_slurm.config.section import Section

MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake; `str()` is a whole sentence."""

    line: int  # 0: of the file as a whole
    key: str
    message: str
    file: str = field(default="", compare=False)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.key, self.message) if part)


_MISSING = object()  # a value that was refused; its fault is already in the list


class _Reader:
    def __init__(self) -> None:
        self.faults: list[Mistake] = []
        self.lines: dict[str, int] = {}  # key -> line, for the rules that join several keys
        self._build = yaml.SafeLoader("")

    def fault(self, node: yaml.Node, key: str, message: str) -> None:
        self.faults.append(Mistake(_line(node), key, message))

    def value(self, node: yaml.Node, kind: Any, key: str) -> Any:
        """A node as the annotated type wants it, or _MISSING."""
        self.lines[key] = _line(node)
        if (section := section_of(kind)) is not None:
            return self.section(node, section, key)
        core = bare(kind)
        if get_origin(core) is dict:
            return self.mapping(node, core, key)
        if get_origin(core) is tuple:
            return self.sequence(node, get_args(core)[0], key)
        return self.scalar(node, kind, key)

    def scalar(self, node: yaml.Node, kind: Any, key: str) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            self.fault(node, key, f"must be {type_words(kind)}, not a {'map' if _is_map(node) else 'list'}")
            return _MISSING
        try:
            # YAML takes a plain `off` for false.
            built = node.value if get_origin(bare(kind)) is Literal else self._build.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):
            self.fault(node, key, f"can't be read as {type_words(kind)}")
            return _MISSING
        if isinstance(built, str) and not built.isprintable():  # no path, name or command of ours has any
            self.fault(node, key, f"{built!r} holds characters that can't be printed")
            return _MISSING
        try:
            value = msgspec.convert(built, kind, strict=True)
        except msgspec.ValidationError as error:
            self.fault(node, key, _in_words(built, node, kind, str(error)))
            return _MISSING
        if isinstance(value, float) and value != value:
            self.fault(node, key, "must be a number, not .nan")
            return _MISSING
        return value

    def sequence(self, node: yaml.Node, item: Any, key: str) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            self.fault(node, key, f"must be a list, for example [{_text(node)}]")
            return _MISSING
        values = [self.value(child, item, f"{key}[{i}]") for i, child in enumerate(node.value)]
        return _MISSING if any(v is _MISSING for v in values) else tuple(values)

    def pairs(self, node: yaml.Node, key: str) -> list[tuple[str, yaml.Node, yaml.Node]]:
        """The entries of a map, each name once."""
        if _is_null(node):
            return []  # a section whose keys are all commented out
        if not isinstance(node, yaml.MappingNode):
            self.fault(node, key, "must be a map of keys to values, one `key: value` per line")
            return []
        seen: dict[str, int] = {}
        entries = []
        for name_node, value_node in node.value:
            name = _text(name_node)
            if name in seen:
                self.fault(name_node, _join(key, name), f"given twice (first in line {seen[name]}); keep one")
                continue
            seen[name] = _line(name_node)
            entries.append((name, name_node, value_node))
        return entries

    def mapping(self, node: yaml.Node, core: Any, key: str) -> Any:
        name_type, value_type = get_args(core)
        result: dict[str, Any] = {}
        for name, name_node, value_node in self.pairs(node, key):
            try:
                msgspec.convert(name, name_type)
            except msgspec.ValidationError:
                self.fault(name_node, key, f"{name[:70]!r} is no name: letters, digits and ._+- only, at most 64")
                continue
            value = self.value(value_node, value_type, _join(key, name))
            if value is not _MISSING:
                result[name] = value
        return result

    def section(self, node: yaml.Node, section: type[Section], key: str) -> Any:
        known = fields(section)
        given: dict[str, Any] = {}
        for name, name_node, value_node in self.pairs(node, key):
            if name not in known:
                self.fault(name_node, _join(key, name), _no_such_key(name, key, list(known)))
                continue
            kind = known[name].type
            if _is_null(value_node) and not _takes_null(kind):
                self.fault(name_node, _join(key, name), f"has no value; give {type_words(kind)} or remove the line")
                continue
            value = self.value(value_node, kind, _join(key, name))
            if value is not _MISSING:
                given[known[name].name] = value
        # What was given and refused is told already.
        lacking = [name for name, one in known.items() if one.required and one.name not in given]
        for name in lacking if not any(_join(key, name) in self.lines for name in lacking) else ():
            self.fault(node, key, f"needs `{name}`")
        return _MISSING if lacking else section(**given)


def read(text: str) -> tuple[Config, list[Mistake], dict[str, int]]:
    """A Config (of what was right), all faults of form, and the line of each key."""
    reader = _Reader()
    try:
        alias = next((e for e in yaml.parse(text, Loader=yaml.SafeLoader) if isinstance(e, yaml.AliasEvent)), None)
        if alias is not None:  # a few lines of aliases can stand for gigabytes
            line = _line(alias)
            return Config(), [Mistake(line, "", f"alias *{alias.anchor}: write the value out")], {}
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        return Config(), [_syntax(error)], {}
    if node is None:
        return Config(), [], {}
    config = reader.section(node, Config, "")
    assert isinstance(config, Config)
    return config, sorted(reader.faults), reader.lines


def _syntax(error: yaml.YAMLError) -> Mistake:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it can't be parsed"
    hint = "; YAML indents with spaces" if "\\t" in str(said) else ""
    return Mistake(mark.line + 1 if mark else 1, "", f"not YAML: {said}{hint}")


def _no_such_key(name: str, section: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6) or [
        k for k in known if _folded(k) == _folded(name) or k.startswith(name + "_")
    ]
    if near:
        return f"no such key; did you mean `{near[0]}`?"
    paths = {key.path for key in all_keys() if ".NAME." not in key.path}
    elsewhere = sorted(p for p in paths if p.rpartition(".")[2] == name)
    if elsewhere:
        return f"no such key here; it is `{elsewhere[0]}`"
    close = difflib.get_close_matches(_join(section, name), sorted(paths), n=1, cutoff=0.75)
    if close:
        return f"no such key; did you mean `{close[0]}`?"
    where = f"`{section}`" if section else "the file"
    return f"no such key; {where} has: {', '.join(known)}"


def _in_words(built: Any, node: yaml.ScalarNode, kind: Any, said: str) -> str:
    """msgspec's complaint as a sentence with a remedy."""
    core = bare(kind)
    shown = _text(node)
    if get_origin(core) is Literal:
        choices = [str(c) for c in get_args(core)]
        near = difflib.get_close_matches(shown, choices, n=1, cutoff=0.5)
        return f"{shown!r} is none of {', '.join(choices)}" + (f"; did you mean `{near[0]}`?" if near else "")
    if limit := re.match(r"Expected `\w+` (>=|<=|>|<) (\S+)", said):
        sign = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}[limit[1]]
        return f"{shown} is out of range: must be {sign} {float(limit[2]):g}"
    if "matching regex" in said:
        return f"{shown!r} is not allowed: must match {said.partition('matching regex ')[2]}"
    if "length" in said:
        return "must not be empty"
    if core is str and built is not None:
        return f"must be text; YAML reads {shown} as {type(built).__name__}, so put it in quotes"
    if core in (int, float) and isinstance(built, str) and (number := re.match(r"[0-9.]+(?=\s*[a-z%]+$)", built)):
        return f"must be a number without a unit: {number[0]}"
    return f"must be {type_words(kind)}, not {shown!r}"


def _line(node: yaml.Node | yaml.Event) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def _takes_null(kind: Any) -> bool:
    core = bare(kind)
    return type(None) in get_args(core) or section_of(kind) is not None or mapped_section(kind) is not None


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _is_map(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode)


def _text(node: yaml.Node) -> str:
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else "a list or map"
    return text if len(text) <= 100 else text[:100] + "..."


def _join(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


def _folded(name: str) -> str:
    return name.replace("-", "_").lower()
