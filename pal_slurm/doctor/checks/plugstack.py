"""pal.so in plugstack.conf. In: a Site. Out: advice: `required`, files that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site

STEP = 50
TITLE = "plugstack"
# Debian, EL and SLES builds of SchedMD's spec, OpenHPC's place, and `make install`.
PLUGIN_DIRS = (
    "/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib/aarch64-linux-gnu/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm",
    "/usr/local/lib/slurm",
)  # fmt: skip


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        return
    path = conf.value("PlugStackConfig") or site.beside("plugstack.conf")
    lines = list(_lines(site, path))
    if not lines:
        yield note("no pal.so in plugstack.conf: users say --comment=app:NAME, and there is no --pal-app",
                   "optional pal.so", path)  # fmt: skip
    for place, words in lines:
        if words[0].lower() == "required":
            yield mend("pal.so is `required`: after an upgrade of Slurm no job could be submitted",
                       " ".join(["optional", *words[1:]]), f"{place}, in its place")  # fmt: skip
        if not any(site.there(f"{where}/{words[1]}" if where else words[1]) for where in _dirs(site, words[1])):
            yield mend(f"{words[1]} is not there: --pal-app is unknown", _build(site), place)
        for word in words[2:]:
            key, _, file = word.partition("=")
            if key == "classes" and not site.there(file):
                yield mend(f"{place}: classes={file} is not there: PAL_CLASS stays empty", "resnet = A", file)
    if lines and not any(words[0].lower() == "required" for _, words in lines):
        yield ok(f"pal.so is optional in {lines[0][0].rpartition(':')[0]}")


def _build(site: Site) -> str:
    makefile = site.shared("spank/Makefile", "/usr/share/pal-slurm/spank/Makefile")
    return f"make -C {makefile.rpartition('/')[0]} install, or the package pal-slurm-spank of this release"


def _dirs(site: Site, name: str) -> tuple[str, ...]:
    if name.startswith("/"):
        return ("",)
    told = site.conf.value("PluginDir") if site.conf else ""
    live = (site.running or {}).get("PluginDir", "")
    named = tuple(filter(None, (told or live).split(":")))
    return named or PLUGIN_DIRS


def _lines(site: Site, path: str) -> Iterator[tuple[str, list[str]]]:
    """Lines about pal.so, with file and line; `include` may name files by pattern."""
    for number, line in enumerate((site.text(path) or "").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if len(words) > 1 and words[0].lower() == "include":
            inner = words[1] if words[1].startswith("/") else f"{path.rpartition('/')[0]}/{words[1]}"
            for found in sorted(site.root.glob(inner.lstrip("/"))):
                name = "/" + str(found.relative_to(site.root))
                if name != path:
                    yield from _lines(site, name)
        elif len(words) > 1 and words[1].rpartition("/")[2] == "pal.so":
            yield f"{path}:{number}", words
