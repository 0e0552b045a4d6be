"""How long others wait to write while `palctl db vacuum` works. In: a size. Out: seconds, bytes, longest transaction.

python benchmarks/store_vacuum.py [--runs 1000000]
"""

from __future__ import annotations

import argparse
import tempfile
import time

from sqlalchemy import insert

from benchmarks.timed_store import timed_store
from pal_slurm.store import Store
from pal_slurm.store.backup import backup
from pal_slurm.store.retention import Keep, rules, sweep
from pal_slurm.store.space import give_back
from pal_slurm.store.tables import gpus, runs

GPUS, NOW = 10_000, 1_790_000_000.0
DAY = 86_400.0


def fill(store: Store, rows: int) -> None:
    with store.writing() as db:
        cards = [{"uuid": f"GPU-{n}", "model": "a100", "first_seen": 1.0, "last_seen": 1.0} for n in range(GPUS)]
        db.execute(insert(gpus), cards)
    for first in range(0, rows, 50_000):
        at = NOW - 800 * DAY + first / rows * 100 * DAY
        made = [
            {
                "gpu_id": 1 + n % GPUS, "class": "A", "app": "resnet", "seconds": 0.2, "night": int(at // DAY),
                "measured_at": at, "source": "probe", "document": f"{first + n // 20:064x}", "seq": n % 20,
                "node": f"n{n % GPUS // 8}", "scope": "gpu", "driver": "550.54", "power_cap_w": 400.0,
            }
            for n in range(min(50_000, rows - first))
        ]  # fmt: skip
        with store.writing() as db:
            db.execute(insert(runs), made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    rows = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as directory:
        store = timed_store(directory)
        assert store.path is not None
        fill(store, rows)
        store.longest = 0.0
        begun = time.monotonic()
        size = backup(store, store.path.with_name("copy.sqlite"))
        print(f"backup: {size / 1e6:.0f} MB in {time.monotonic() - begun:.1f} s")
        begun = time.monotonic()
        removed = sum(sweep(store, rule) for rule in rules(Keep(90 * DAY, 730 * DAY), NOW))
        print(f"{removed} of {rows} rows removed in {time.monotonic() - begun:.1f} s", end="; ")
        print(f"longest transaction {store.longest:.2f} s")
        begun, store.longest = time.monotonic(), 0.0
        given = give_back(store, ["runs"])
        print(f"{given.bytes / 1e6:.0f} MB given back in {time.monotonic() - begun:.1f} s", end="; ")
        print(f"longest transaction {store.longest:.2f} s")
        store.close()


if __name__ == "__main__":
    main()
