"""Spools for tests. In: true speeds. Out: documents as pal-probe writes them, a spool, a store's scores."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.learning.run import Ingested, ingest
from pal_slurm.probe.document import Device, Document, Kernel, TimedRun, to_json
from pal_slurm.store import ScoreRepo, Store

NOW = 1_790_000_000.0  # some afternoon
NIGHT = NOW - NOW % 86_400 + 7_200.0  # 02:00 UTC of that day
DAY = 86_400.0
Truth = Mapping[tuple[str, int], float]  # (node, slot) -> slowness


def card(node: str, slot: int) -> str:
    return f"GPU-{node}-{slot}-0000"


def document(
    node: str,
    truth: Truth,
    at: float = NIGHT,
    rounds: int = 5,
    cards: Mapping[tuple[str, int], str] | None = None,
    app: str = "resnet",
    cls: str = "A",
    driver: str = "550.54",
    noise: float = 0.003,
    seed: int = 1,
) -> Document:
    """What a profile job of that node writes."""
    rng = random.Random(f"{seed} {node} {at}")
    places = sorted(place for place in truth if place[0] == node)
    uuids = {place: (cards or {}).get(place, card(*place)) for place in places}
    devices = tuple(
        Device(uuids[place], node, place[1], "NVIDIA A100", "test", driver=driver, power_cap_w=400.0)
        for place in places
    )
    runs = tuple(
        TimedRun(app, (uuids[place],), "gpu", 0.2 * truth[place] * rng.lognormvariate(0, noise), at + 60 * n, n)
        for n in range(rounds)
        for place in places
    )
    return Document("bench", "test 1", at, at + 60 * rounds, "7", devices, (Kernel(app, app, cls),), runs)


def put(spool: Path, made: Document, name: str = "") -> Path:
    spool.mkdir(exist_ok=True)
    node = made.devices[0].node
    path = spool / (name or f"bench-{node}-{made.begun_at:.0f}.json")
    path.write_text(to_json(made))
    return path


def fleet(nodes: int, gpus: int = 4, slow: Mapping[tuple[str, int], float] | None = None, seed: int = 3) -> Truth:
    rng = random.Random(seed)
    truth = {(f"n{n}", g): rng.lognormvariate(0, 0.03) for n in range(1, nodes + 1) for g in range(gpus)}
    return truth | dict(slow or {})


def put_night(spool: Path, truth: Truth, at: float = NIGHT, **options: object) -> None:
    for node in sorted({node for node, _ in truth}):
        put(spool, document(node, truth, at, **options))  # type: ignore[arg-type]


def here(spool: Path) -> Config:
    """Settings of a pald with a state directory beside that spool."""
    state = spool.parent / "state"
    state.mkdir(mode=0o750, parents=True, exist_ok=True)
    return Config(state_dir=str(state))


def shelf(spool: Path) -> Path:
    """Where pald keeps what it took in."""
    return spool.parent / "state" / "intake"


def take(store: Store, spool: Path, now: float = NOW) -> Ingested:
    return ingest(store, here(spool), spool, now)


def scores(store: Store) -> dict[tuple[str, int], float]:
    return {(s.node, s.slot): s.score for s in ScoreRepo(store).placed()}
