"""The live page, where it is enabled. In: a Site. Out: advice: its packages, its user, who may see what."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from pal_slurm.doctor.advice import Advice, mend, ok
from pal_slurm.doctor.checks.figures import only_here
from pal_slurm.doctor.checks.units import enabled
from pal_slurm.doctor.site import Site

STEP = 90
TITLE = "page"
NEEDS = ("starlette", "uvicorn", "jinja2")


def look(site: Site) -> Iterator[Advice]:
    if not enabled(site, "pal-page.service"):
        yield ok("pal-page is not enabled")
        return
    said = [*_packages(), *_user(site), *_who_sees(site)]
    yield from said or [ok(f"pal-page answers on {site.pal.page.listen}")]


def _packages() -> Iterator[Advice]:
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        yield mend(f"pal-page needs {', '.join(missing)}", "pip install 'pal-slurm[page]'")


def _user(site: Site) -> Iterator[Advice]:
    user = site.user_of("pal-page.service", "pal-page")
    if site.uid(user) is None:
        yield mend(f"there is no user {user}, whom pal-page runs as",
                   f"useradd --system --no-create-home --groups {site.user} {user}", "/etc/passwd")  # fmt: skip
    elif not site.in_group(user, site.user):
        yield mend(f"{user} is not in group {site.user}: it can read neither pal.yaml nor the database",
                   f"usermod -a -G {site.user} {user}", "/etc/group", "systemctl restart pal-page")  # fmt: skip


def _who_sees(site: Site) -> Iterator[Advice]:
    page = site.pal.page
    if page.privacy == "open" and not page.listen.startswith("unix:") and not only_here(page.listen):
        yield mend(f"whoever reaches {page.listen} sees whose each job is and what it runs",
                   "page: {privacy: users}", site.pal_yaml, "systemctl restart pal-page")  # fmt: skip
