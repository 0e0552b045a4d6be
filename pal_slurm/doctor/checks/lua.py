"""job_submit.lua and cli_filter.lua. In: a Site. Out: advice: missing, not ours, no Lua, no plugin that runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pal_slurm.doctor.advice import Advice, mend, note, ok, to_place
from pal_slurm.doctor.checks.gres import has_slots
from pal_slurm.doctor.site import Site

STEP = 40
TITLE = "lua"
OURS = "job_submit.lua: what pal-slurm does inside slurmctld"
_DOFILE = re.compile(r"""^[^-\n]*\bdofile\s*\(?\s*["']([^"']+)["']""", re.MULTILINE)


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None or site.leases_nobody:
        return
    path = site.beside("job_submit.lua")
    text = site.text(path)
    if text is None:
        yield to_place("there is no job_submit.lua beside slurm.conf: no job gets a lease",
                       f"cp {sample(site, 'job_submit.lua')} {path}", path)  # fmt: skip
    elif OURS not in text and not _called(site, text):
        yield to_place("job_submit.lua is the site's own, and does not call pal-slurm's", *_both(site, path))
    elif fault := _compiled(site.at(path)):
        yield mend(f"job_submit.lua is no Lua, so slurmctld refuses jobs or passes it over: {fault}",
                   f"cp {sample(site, 'job_submit.lua')} {path}", path)  # fmt: skip
    else:
        yield ok(f"{path} is pal-slurm's")
    yield from _plugin(site)
    if has_slots(conf) and (site.pal_lua or {}).get("models") and not conf.has("CliFilterPlugins", "lua"):
        yield note("CliFilterPlugins lacks lua: `srun --gres=gpu:MODEL` within a job fails where types are slots",
                   "CliFilterPlugins=cli_filter/lua", conf.file)  # fmt: skip


def sample(site: Site, name: str) -> str:
    return site.shared(f"spank/{name}", f"/usr/share/pal-slurm-spank/{name}")


def _called(site: Site, text: str) -> bool:
    return any(OURS in (site.text(file) or "") for file in _DOFILE.findall(text))


def _both(site: Site, path: str) -> tuple[str, str, str]:
    """Both: ours lies beside it under another name, and its word comes last."""
    other = site.beside("pal_job_submit.lua")
    return (
        f'dofile("{other}"); local pal_submit = slurm_job_submit',
        f"{path}, as its first line; and in the place of its last `return slurm.SUCCESS`: "
        "return pal_submit(job, partitions, uid)",
        f"cp {sample(site, 'job_submit.lua')} {other}",
    )


def _compiled(path: Path) -> str:
    """What a Lua compiler of this machine says; empty also where there is none."""
    compiler = next(filter(None, map(shutil.which, ("luac", "luac5.4", "luac5.3", "luac5.1"))), None)
    if compiler is None:
        return ""
    done = subprocess.run([compiler, "-p", str(path)], capture_output=True, text=True, timeout=10, check=False)
    return done.stderr.strip().rpartition(": ")[2] if done.returncode else ""


def _plugin(site: Site) -> Iterator[Advice]:
    """Slurm builds its Lua plugins only where it finds Lua's headers."""
    conf = site.conf
    told = conf.value("PluginDir") if conf else ""
    if not told and site.running:
        told = site.running.get("PluginDir", "")
    places = [place for place in told.split(":") if place and site.there(place)]
    if places and not any(site.there(f"{place}/job_submit_lua.so") for place in places):
        yield to_place(f"{places[0]} has no job_submit_lua.so: this Slurm was built without Lua",
                       "dnf install lua-devel, or apt install liblua5.4-dev; build Slurm again", places[0])  # fmt: skip
