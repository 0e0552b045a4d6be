"""The keys of pal.yaml as data, read off the schema. In: a Section type. Out: Key records, for messages and samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from pal_slurm.config.schema import Config
from pal_slurm.config.section import Section


@dataclass(frozen=True, slots=True)
class Key:
    path: str  # "lease.length_s"; "apps.NAME.class" for keys of a map
    type: Any  # as annotated
    default: Any
    unit: str
    why: str
    section: type[Section] | None  # its keys, where it is a section or a map of sections


def bare(annotated: Any) -> Any:
    """The type without its annotations."""
    return get_args(annotated)[0] if get_origin(annotated) is Annotated else annotated


def section_of(annotated: Any) -> type[Section] | None:
    core = bare(annotated)
    return core if isinstance(core, type) and issubclass(core, Section) else None


def mapped_section(annotated: Any) -> type[Section] | None:
    """The section type of a map NAME -> section."""
    core = bare(annotated)
    return section_of(get_args(core)[1]) if get_origin(core) is dict else None


def fields(section: type[Section]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys as written in the file."""
    return {field.encode_name: field for field in msgspec.structs.fields(section)}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def all_keys(section: type[Section] = Config, prefix: str = "") -> Iterator[Key]:
    """Every key, sections before what is in them."""
    for name, field in fields(section).items():
        meta = next((m for m in get_args(field.type) if isinstance(m, msgspec.Meta)), msgspec.Meta())
        inner = section_of(field.type) or mapped_section(field.type)
        unit = (meta.extra or {}).get("unit", "")
        yield Key(prefix + name, field.type, default_of(field), unit, meta.description or "", inner)
        if inner is not None:
            yield from all_keys(inner, prefix + name + (".NAME." if mapped_section(field.type) else "."))


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


def type_words(annotated: Any) -> str:
    """The type in words that a person writes YAML by."""
    core = bare(annotated)
    origin, inner = get_origin(core), get_args(core)
    if section_of(core) is not None:
        return "a section"
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is tuple:
        return "a list, each item " + type_words(inner[0])
    if origin is dict:
        return "a map of NAME to " + type_words(inner[1])
    if inner:
        return " or ".join(map(type_words, inner))
    return _WORDS[core]
