"""The sample pal.yaml, and one key explained; both written off the schema. In: keys. Out: text."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import msgspec
import yaml

from pal_slurm.config.keys import Key, all_keys, type_words
from pal_slurm.config.section import Section

_HEAD = """\
# pal-slurm: every key with its default. Lines are commented out: a key that is missing has the default shown.
# `palctl config check` finds mistakes, `palctl config explain KEY` says more, SIGHUP makes pald read it again.
"""
_APPS = """\
# apps:
#   resnet50:
#     class: A
#     base: {a100: 0.175, v100: 0.31}
#     comm: {node: 1.0, rack: 1.1, cluster: 1.3}
"""


def plain(value: Any) -> str:
    """One value as YAML on one line."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = yaml.safe_dump(msgspec.to_builtins(value), default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("...").strip()


def _said(key: Key) -> str:
    return f"{key.why} ({type_words(key.type)}{', ' + key.unit if key.unit else ''})"


def sample() -> str:
    """The file that `palctl config sample` prints and `etc/pal.yaml` holds."""
    lines = [_HEAD]
    for key in all_keys():
        if ".NAME." in key.path:
            continue
        depth = key.path.count(".")
        name, indent = key.path.rpartition(".")[2], "  " * depth
        if depth == 0:
            lines.append("")
        if key.path == "apps":
            lines += [f"## {key.why}", _APPS.rstrip("\n")]
        elif isinstance(key.default, Section):
            lines += [f"## {key.why}", f"{name}:"]
        else:
            lines += [f"{indent}## {part}" for part in wrap(_said(key), 116 - len(indent))]
            lines.append(f"{indent}# {name}: {plain(key.default)}")
    return "\n".join(lines) + "\n"


def explain(path: str) -> str | None:
    """One key in a few lines; None when there is no such key. `apps.resnet.class` is found as `apps.NAME.class`."""
    wanted = path.split(".")
    if len(wanted) > 2 and wanted[0] == "apps":
        wanted[1] = "NAME"
    for key in all_keys():
        if key.path.split(".") != wanted:
            continue
        lines = [key.path, f"  {key.why}", f"  type: {type_words(key.type)}"]
        if key.unit:
            lines.append(f"  unit: {key.unit}")
        if key.section is None:
            lines.append(f"  default: {plain(key.default)}")
        else:
            lines.append("  keys: " + ", ".join(k.path.rpartition(".")[2] for k in all_keys(key.section)))
        return "\n".join(lines)
    return None
