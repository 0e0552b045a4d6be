"""Looks that are far apart, as at a large site: pald's sign of life goes on between them, new leases last for two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, mark_of

SHARES = (3e-4, 1e-4, 3e-5, 1e-5, 3e-6)  # of slurmctld's time; what a look costs it here hangs on the machine


def told(pald: Pald) -> tuple[int, int]:
    """The time of the sign of life, and how long a lease shall be."""
    text = pald.alive.read_text() if pald.gives_leases() else ""
    found = re.search(r"\nlease (\d+)\n", text)
    return int(text.split()[0]) if found else 0, int(found[1]) if found else 0


def looks(pald: Pald) -> int:
    return len(re.findall(r"(?m)^<\d>\d+ pending", pald.said()))


@pytest.mark.slurm("26.05")
def test_between_looks_pald_lives_on_and_leases_last_for_two_of_them(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        for share in SHARES:
            pald.configure({"budget.read_share": share})
            before = looks(pald)
            pald.start()
            wait_for(lambda: told(pald)[1] > 0, "a sign of life")
            if told(pald)[1] >= 60:
                break
            pald.stop()
        beat, lease = told(pald)
        assert 60 <= lease <= 600  # two looks are so far apart
        wait_for(lambda: told(pald)[0] >= beat + 9, "the next sign of life", 60)
        job = minicluster.submit("--gres=gpu:1")
        end = re.match(r"pal1\{b=(\d+)", mark_of(minicluster, job))
        assert end is not None and int(end[1]) >= beat + 9 + lease
        assert looks(pald) == before + 1
