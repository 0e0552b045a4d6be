"""Who may read pald's figures, and on which port. In: a Site. Out: advice."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site

STEP = 85
TITLE = "figures"
SLURM_EXPORTERS = "9341"


def look(site: Site) -> Iterator[Advice]:
    listen = site.pal.metrics.listen
    if not listen or listen.startswith("unix:"):
        yield ok("figures for Prometheus: " + (listen or "none"))
        return
    port = listen.rpartition(":")[2]
    if port == SLURM_EXPORTERS:
        yield mend("metrics.listen takes port 9341, which belongs to Slurm's own exporters",
                   "metrics: {listen: '127.0.0.1:9752'}", site.pal_yaml, "systemctl restart pald")  # fmt: skip
    elif not only_here(listen):
        yield note(f"figures on {listen}: whoever reaches this host reads them", "metrics: {listen: '127.0.0.1:9752'}",
                   site.pal_yaml)  # fmt: skip
    else:
        yield ok(f"figures for Prometheus on {listen}, for this host only")


def only_here(listen: str) -> bool:
    """ADDRESS:PORT of this host alone."""
    return listen.rpartition(":")[0].strip("[]") in ("127.0.0.1", "::1", "localhost")
