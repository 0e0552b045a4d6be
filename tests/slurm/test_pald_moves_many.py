"""Many exchanges at once on full clusters of real Slurms, by pald's own choice: none on a wrong GPU, no lease too late.

In each round all jobs of a full cluster leave their GPUs at the same time, two by two or in rings of eight, and each
takes what another one left.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.model import Ending, Move
from pal_slurm.store import MoveRepo, open_store
from tests.slurm.minicluster import Minicluster, indices, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_moves import MOVES, logs

PAYS_S = 20  # so long a round has to last: else pald finds that moves don't pay (P11)
# Each run says what it was given; TERM ends it at once.
SAYS = """
trap 'exit 0' TERM
echo "${{SLURM_RESTART_COUNT:-0}} $SLURM_JOB_NODELIST:$CUDA_VISIBLE_DEVICES" >> {log}
sleep 3000 & wait
"""
Held = dict[int, dict[str, str]]


class Everybody:
    """Two jobs of two GPUs on each node: one minds slow GPUs, the other does not."""

    def __init__(self, cluster: Minicluster, pald: Pald, home: Path, nodes: int) -> None:
        self.cluster, self.pald, self.home = cluster, pald, home
        self.nodes = cluster.nodes[:nodes]
        self.repo = MoveRepo(open_store(f"sqlite:///{pald.database}"), pald.cluster_name)
        self.log = {}
        self.app: dict[int, str] = {}
        for number in range(2 * nodes):
            log = logs(cluster, f"says-{number}")
            words = (f"--comment=app:{self.app_of(number)} pal:move", "--gres=gpu:2", "-t", "600")
            job = cluster.submit(*words, wrap=SAYS.format(log=log))
            self.app[job], self.log[job] = self.app_of(number), log
        for job in self.app:
            cluster.wait_state(job, "RUNNING", within=240)

    def app_of(self, number: int) -> str:
        return "resnet" if number % 2 else "bert"

    def scores(self, number: int, before: Held) -> Iterator[str]:
        """Whoever minds sits on slow GPUs from now on."""
        for job, where in before.items():
            slow = 4.0 + number / 1000 if self.app[job] == "resnet" else 1.0 - number / 1000
            for place in places(where):
                yield f"{place},A,{slow}"
                yield f"{place},B,1.0"

    def shown(self) -> dict[int, str]:
        """All records, in one answer: a question a job keeps a busy machine from the moves."""
        records = self.cluster.client("scontrol", "show", "job", "-d").split("\n\n")
        return {int(found[1]): text for text in records if (found := re.match(r"JobId=(\d+)", text))}

    def held(self) -> Held:
        return {job: indices(text) for job, text in self.shown().items() if job in self.app}

    def moves(self) -> dict[int, list[Move]]:
        every = self.repo.since(0.0)
        return {job: [move for move in every if move.job == job] for job in self.app}

    def exchange(self, number: int) -> None:
        """All change places."""
        before = self.held()
        rows = ["node,slot,class,score", *self.scores(number, before)]
        (self.home / "scores.csv").write_text("\n".join(rows) + "\n")
        self.pald.palctl("scores", "import", str(self.home / "scores.csv"))
        wait_for(lambda: self.over() == Counter({number: len(self.app)}), f"round {number}", 600, every=0.5)
        self.judge(number, before)
        newest = max(of[-1].started_at or 0.0 for of in self.moves().values())
        wait_for(lambda: time.time() > newest + PAYS_S, "it has paid", 60)

    def over(self) -> Counter[int]:
        return Counter(sum(move.ending is not None for move in of) for of in self.moves().values())

    def judge(self, number: int, before: Held) -> None:
        """Each on what its partner left, and told so; requeued once; none by the end of its lease."""
        shown, now = self.shown(), self.held()
        for job, of in self.moves().items():
            assert of[-1].ending is Ending.MOVED and of[-1].partner in self.app, of[-1]
            assert now[job] == before[of[-1].partner or 0], f"job {job} has {now[job]}"
            wait_for(lambda job=job: self.said(job)[0] == number, f"run {number} of job {job}")  # type: ignore[misc]
            ((node, slots),) = now[job].items()
            assert self.said(job) == (number, f"{node}:{slots}")
            assert f" Restarts={number} " in shown[job]

    def said(self, job: int) -> tuple[int, str]:
        count, _, where = self.log[job].read_text().splitlines()[-1].partition(" ")
        return int(count), where


class Turning(Everybody):
    """Eight by eight, each is best off where the next one runs: an application, and a class, of its own each."""

    def app_of(self, number: int) -> str:
        return f"app{number}"

    def next_of(self, job: int) -> int:
        jobs = list(self.app)
        at = jobs.index(job)
        return jobs[at // 8 * 8 + (at + 1) % 8]

    def scores(self, number: int, before: Held) -> Iterator[str]:
        for job in self.app:
            for other, where in before.items():
                score = 1.0 - number / 1000 if other == self.next_of(job) else 4.0 + number / 1000
                for place in places(where):
                    yield f"{place},{class_of(self.app[job])},{score}"

    def turn(self, number: int) -> None:
        """Each where the next one was; where one could not go in the same look, some go twice."""
        before, made = self.held(), sum(map(len, self.moves().values()))
        rows = ["node,slot,class,score", *self.scores(number, before)]
        (self.home / "scores.csv").write_text("\n".join(rows) + "\n")
        self.pald.palctl("scores", "import", str(self.home / "scores.csv"))
        wanted = {job: before[self.next_of(job)] for job in self.app}
        wait_for(lambda: not self.repo.open() and self.held() == wanted, f"round {number}", 600, every=2)
        every = sorted((move for of in self.moves().values() for move in of), key=lambda move: move.operation)
        for move in every[made:]:
            assert move.ending is Ending.MOVED and len(move.ring) > 1, move
        for job, of in self.moves().items():
            ((node, slots),) = wanted[job].items()
            wait_for(lambda job=job, of=of: self.said(job)[0] == len(of), f"the last run of job {job}")  # type: ignore[misc]
            assert self.said(job)[1] == f"{node}:{slots}"
        newest = max(move.started_at or 0.0 for move in every)
        wait_for(lambda: time.time() > newest + PAYS_S, "it has paid", 60)


def class_of(app: str) -> str:
    return app.replace("app", "K")


def places(where: dict[str, str]) -> Iterator[str]:
    for node, slots in where.items():
        for slot in slots.split(","):
            yield f"{node},{slot}"


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_hundred_exchanges_on_a_full_cluster_four_at_once(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        for node in minicluster.nodes[4:]:
            minicluster.drain(node)
        pald.start()
        everybody = Everybody(minicluster, pald, tmp_path, 4)
        for number in range(1, 26):
            everybody.exchange(number)
        made = [move for of in everybody.moves().values() for move in of]
        assert len(made) == 200
        print(f"{minicluster.release}: {len(made) // 2} exchanges of two, {len(made)} moves, each right")


@pytest.fixture
def large(release: str) -> Iterator[Minicluster]:
    own = Minicluster.up(f"t{os.getpid()}-many-{release}", release, "--nodes", "16")
    yield own
    own.down()


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_sixty_moves_a_minute_on_sixteen_nodes(large: Minicluster, tmp_path: Path) -> None:
    with Pald(large, tmp_path, {**MOVES, "moves.at_once": 32}) as pald, large.leases():
        assert pald.once() == 0
        pald.start()
        everybody = Everybody(large, pald, tmp_path, 16)
        for number in range(1, 8):
            everybody.exchange(number)
        of_jobs = everybody.moves().values()
        made = [move for of in of_jobs for move in of]
        rounds = [[of[number] for of in of_jobs] for number in range(7)]
        took = sum(max(m.ended_at or 0.0 for m in each) - min(m.began_at for m in each) for each in rounds)
        dead = sorted(move.dead_s or 0.0 for move in made)
        rate = 60 * len(made) / took
        print(f"{large.release}: {len(made)} moves, {rate:.0f} a minute, each right; dead {dead[len(dead) // 2]:.0f} s")
        assert len(made) == 224


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_hundred_rings_of_eight_on_a_full_cluster_four_at_once(large: Minicluster, tmp_path: Path) -> None:
    apps = {f"app{number}": {"class": class_of(f"app{number}")} for number in range(32)}
    names = ["A", *(app["class"] for app in apps.values())]
    # Rounds are short: pald doubts more and more what they promise, and would leave out who has only just started.
    keys = {**MOVES, "moves.at_once": 32, "moves.margin": 1, "apps": apps, "classes.names": names}
    with Pald(large, tmp_path, keys) as pald, large.leases():
        assert pald.once() == 0
        pald.start()
        everybody, rings, number = Turning(large, pald, tmp_path, 16), Counter[int](), 0
        while rings[8] < 8 * 100:
            number += 1
            everybody.turn(number)
            made = [move for of in everybody.moves().values() for move in of]
            rings = Counter(len(move.ring) for move in made)
        dead = sorted(move.dead_s or 0.0 for move in made)
        others = f" (and {len(made) - rings[8]} moves in smaller ones)" if len(made) > rings[8] else ""
        said = f"{rings[8] // 8} rings of eight{others}, {len(made)} moves, each right"
        print(f"{large.release}: {said}; dead {dead[len(dead) // 2]:.0f} s, at most {dead[-1]:.0f} s")
