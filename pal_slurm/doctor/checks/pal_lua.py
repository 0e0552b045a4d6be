"""pal_lua.conf. In: a Site. Out: advice: what lua would refuse in it, where pal.yaml says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pal_slurm.doctor.advice import Advice, mend, ok, to_place
from pal_slurm.doctor.checks.gres import has_slots
from pal_slurm.doctor.checks.lua import sample
from pal_slurm.doctor.site import Site
from pal_slurm.words import digits

STEP = 45
TITLE = "pal_lua.conf"
MOST_LEASE_S = 600
MOST_TOLD = 120
_SWITCH = ("enabled", "slots")
_FILES = ("alive_file", "wake_file")
_LISTS = ("partitions", "models", "preempt_qos")
_WHOSE = ("users", "pald")  # shards
KEYS = (*_SWITCH, *_FILES, *_LISTS, "lease", "tell", "shards")


def look(site: Site) -> Iterator[Advice]:
    if site.conf is None or site.leases_nobody:
        return
    path = site.beside("pal_lua.conf")
    text = site.text(path)
    if text is None:
        yield to_place("there is no pal_lua.conf beside slurm.conf: job_submit.lua leaves all jobs alone",
                       f"cp {sample(site, 'pal_lua.conf')} {path}", path, fix=_new(site, path))  # fmt: skip
        return
    said = [*_lines(text, path), *_agree(site, path)]
    yield from said or [ok(f"{path} and pal.yaml say the same")]


def _lines(text: str, path: str) -> Iterator[Advice]:
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        key, found, value = (part.strip() for part in line.partition("="))
        if not line or line.startswith("#"):
            continue
        if not found or key not in KEYS:
            yield mend(f"line {number}: no such setting as {key!r}: lua reads none of the file",
                       f"one of {', '.join(KEYS)}", f"{path}:{number}")  # fmt: skip
        elif value and not _may_be(key, value):
            line, hint = _example(key)
            yield mend(f"line {number}: {key} can't be {value!r}: {hint}", line, f"{path}:{number}, in its place")


def _may_be(key: str, value: str) -> bool:
    if key in _SWITCH:
        return value in ("yes", "no")
    if key == "shards":
        return value in _WHOSE
    if key in _FILES:
        return value.startswith("/")
    if key == "tell":  # no braces: those are the mark's
        return len(value) <= MOST_TOLD and value.isascii() and value.isprintable() and not set(value) & set("{}")
    return key in _LISTS or (digits(value) and 1 <= int(value[:9]) <= MOST_LEASE_S)


def _example(key: str) -> tuple[str, str]:
    """A right line, and what may stand there: lua takes what is behind a value for a part of it."""
    if key in _SWITCH:
        return f"{key} = yes", "yes or no"
    if key == "shards":
        return f"shards = {_WHOSE[1]}", " or ".join(_WHOSE)
    if key == "tell":
        return "tell = waits for pal-slurm", f"at most {MOST_TOLD} ASCII characters, no braces"
    if key == "lease":
        return "lease = 20", f"seconds, 1 to {MOST_LEASE_S}, and nothing behind them"
    return f"{key} = /run/pal-slurm/{key[:-5]}", "an absolute path"


def _agree(site: Site, path: str) -> Iterator[Advice]:
    told, cycle, conf = site.pal_lua or {}, site.pal.cycle, site.conf
    for key, wanted in (("alive_file", cycle.alive_file), ("wake_file", cycle.wake_file)):
        if wanted and told.get(key, "") != wanted and (told.get(key) or key == "alive_file"):
            yield mend(f"{key} is {told.get(key) or 'not set'}, and pal.yaml says {wanted}: lua and pald never meet",
                       f"{key} = {wanted}", path, fix=set_in(site, path, key, wanted))  # fmt: skip
    slots = bool(conf and has_slots(conf))
    if slots != (told.get("slots") == "yes"):
        word = "yes" if slots else "no"
        yield mend(f"slots = {told.get('slots') or 'no'}, and the nodes {'have' if slots else 'have no'} slot types",
                   f"slots = {word}", path, fix=set_in(site, path, "slots", word))  # fmt: skip
    models = {word.strip() for word in told.get("models", "").split(",")} - {""}
    if slots and models != set(site.pal.cluster.models):
        yield mend(f"models are {', '.join(sorted(models)) or 'none'}, and in pal.yaml "
                   f"{', '.join(site.pal.cluster.models) or 'none'}",
                   f"cluster: {{models: [{', '.join(sorted(models))}]}}", site.pal_yaml)  # fmt: skip


def _new(site: Site, path: str) -> Callable[[], str]:
    def write() -> str:
        cycle = site.pal.cycle
        slots = "yes" if site.conf and has_slots(site.conf) else "no"
        pairs = {"alive_file": cycle.alive_file, "wake_file": cycle.wake_file, "slots": slots}
        lines = [f"{key} = {value}\n" for key, value in pairs.items() if value]
        lines += [f"models = {','.join(site.pal.cluster.models)}\n"] if site.pal.cluster.models else []
        site.at(path).write_text("# Settings of job_submit.lua; docs/tagging.md\n" + "".join(lines), encoding="utf-8")
        return f"wrote {path}"

    return write


def set_in(site: Site, path: str, key: str, value: str) -> Callable[[], str]:
    def write() -> str:
        file: Path = site.at(path)
        kept = [line for line in file.read_text(encoding="utf-8").splitlines() if line.partition("=")[0].strip() != key]
        file.write_text("\n".join([*kept, f"{key} = {value}"]) + "\n", encoding="utf-8")
        return f"{path}: {key} = {value}"

    return write
