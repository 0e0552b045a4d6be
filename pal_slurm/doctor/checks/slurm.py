"""Is there a Slurm, does it answer, is it new enough? In: a Site. Out: advice."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.capabilities import OLDEST, capabilities_of, parse_release

STEP = 10
TITLE = "Slurm"


def look(site: Site) -> Iterator[Advice]:
    if not site.conf_path and not site.running:
        yield mend(
            f"no slurm.conf, and no answer: {site.silence}",
            "palctl doctor --slurm-conf FILE, on the host where slurmctld runs",
        )
    elif site.commands is None:
        yield note("the running Slurm is not asked: only files are looked at")
    elif not site.running:
        yield mend(site.silence, "systemctl status slurmctld", then="look again")
    else:
        yield _release(site.running["SLURM_VERSION"])


def _release(release: str) -> Advice:
    try:
        can = capabilities_of(release)
    except SlurmUnavailable as error:
        if parse_release(release) < OLDEST:
            return mend(str(error), "upgrade Slurm: 22.05 is the oldest that pald talks to")
        raise
    if not can.restore_untyped:
        return ok(f"{release} answers; pins name nodes: before 23.02.6 a request for devices can't be taken back")
    return ok(f"{release} answers")
