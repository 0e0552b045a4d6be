"""A fleet with a bit of everything, for tests of its page. In: a store. Out: what ingest made of nights and jobs.

Nodes n1 to n16 with four GPUs each: n7:g2 is slow for everything, n3:g1 for class A, n11 is a slow node, n5:g0 changed
a week ago, n15 was not profiled of late, n16 was only ever seen. The newest night is hot for PageRank.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import insert, select, update

from pal_slurm.config import Config
from pal_slurm.learning.classes import learn_classes
from pal_slurm.learning.run import ingest
from pal_slurm.store import GpuRepo, Sighting, Store
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.store.tables import app_features, gpu_slots, gpus, leader, nights
from tests.unit.spools import DAY, document, fleet, here, put, put_night

KERNELS = {"resnet": "A", "transformer": "B", "pagerank": "C"}
FELT = {"A": 1.0, "B": 0.6, "C": 0.15}  # how much of a GPU's slowness a class feels
SLOW = {("n7", 2): 1.62, ("n3", 1): 1.21, ("n11", 0): 1.11, ("n11", 1): 1.12, ("n11", 2): 1.12, ("n11", 3): 1.13}
NIGHTS, STALE_DAYS = 14, 45.0
USES = {
    "resnet50": (0.93, 0.31), "vgg19": (0.88, 0.38), "dcgan": (0.81, 0.29), "bert-large": (0.62, 0.55),
    "gpt-7b": (0.66, 0.61), "t5": (0.55, 0.5), "pagerank": (0.21, 0.83), "sgemm-sparse": (0.3, 0.74),
}  # fmt: skip


def fill(store: Store, spool: Path, now: float) -> None:
    """Nights up to the one before `now`, taken in as a site's are."""
    truth = {place: slowness for place, slowness in fleet(16, 4, SLOW).items() if place[0] != "n16"}
    long_ago = now - STALE_DAYS * DAY
    for app, cls in KERNELS.items():
        for node in ("n14", "n15"):
            put(spool, document(node, truth, long_ago, app=app, cls=cls), f"old-{node}-{app}.json")
    ingest(store, here(spool), spool, long_ago + DAY / 2)
    for night in range(NIGHTS):
        at = now - (NIGHTS - night) * DAY + 0.5 * DAY
        for app, cls in KERNELS.items():
            level = 1.09 if app == "pagerank" and night == NIGHTS - 1 else 1.0 + 0.004 * (night % 3)
            felt = {place: level * s ** FELT[cls] for place, s in truth.items()}
            if night >= NIGHTS - 6:
                felt["n5", 0] *= 1.08
            for n in range(1, 15):
                if (n + night) % 5:  # a fifth of the nodes is busy in any night
                    put(spool, document(f"n{n}", felt, at, app=app, cls=cls, seed=night), f"{night}-{n}-{app}.json")
    ingest(store, here(spool), spool, now)
    GpuRepo(store).see([Sighting(f"GPU-n16-{g}-0000", "n16", g, "NVIDIA A100") for g in range(4)], now)
    SampleRepo(store).add(
        [
            JobSample(
                f"{app}-{job}", "c", f"{i}{job}", app, "n1", ("GPU-n1-0-0000",), now - 7200, now - 3600, 0, None,
                compute + 0.02 * (job % 3 - 1), memory + 0.02 * (job % 2),
            )
            for i, (app, (compute, memory)) in enumerate(USES.items())
            for job in range(3 + 2 * i)
        ]
    )  # fmt: skip
    learn_classes(store, Config(), now)


def fill_large(store: Store, spool: Path, now: float) -> None:
    """One night of 250 nodes with eight GPUs, and one GPU that is slow for sure."""
    truth = fleet(250, 8, {("n77", 5): 1.7})
    put_night(spool, truth, now - DAY / 2, rounds=4)
    ingest(store, here(spool), spool, now)


HARM = (
    "<script>document.title='pwned'</script>", "<img src=x onerror=document.title='pwned'>", '"><svg onload=alert(1)>',
    "'><style>*{display:none}</style>", "</title></style><h1>", "{{ 7*7 }}{% include 'x' %}", "\x1b[31m\u202egnp.exe",
    "javascript:alert(1)", "&lt;b&gt;", "a" * 250,
)  # fmt: skip
"""Texts that have meant harm elsewhere; names of nodes that long are allowed."""


def fill_hostile(store: Store, spool: Path, now: float) -> None:
    """Past the checks of documents: as if somebody wrote into the database."""
    truth = fleet(4, 1, {("n2", 0): 1.6})
    for night in range(3):
        put_night(spool, truth, now - (3 - night) * DAY + DAY / 2)
    ingest(store, here(spool), spool, now)
    with store.writing() as db:
        for n in range(4):
            place = gpu_slots.c.node == f"n{n + 1}"
            gpu = db.execute(select(gpu_slots.c.gpu_id).where(place)).scalar_one()
            db.execute(update(gpu_slots).where(place).values(node=HARM[n] if n else HARM[9]))
            db.execute(update(gpus).where(gpus.c.id == gpu).values(uuid=f"{HARM[n]}{n}"[:96], model=HARM[4][:64]))
        db.execute(update(nights).values(app=HARM[1][:64]))
        names = [text[:64] for text in HARM]
        for name in names:
            db.execute(
                insert(app_features).values(
                    app=name, compute=0.5, memory=0.5, compute_error=0.1, memory_error=0.1, jobs=1, base={},
                    sure=0.9, seen_at=now,
                )
            )  # fmt: skip
        db.execute(insert(leader).values(cluster=HARM[2], owner="x", fence=1, expires=0.0))
    NightRepo(store).alert(Alert(str(n), text[:32], text, now) for n, text in enumerate(HARM))
