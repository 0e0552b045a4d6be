"""What two applications cost each other on one GPU, learned on a real Slurm from nothing: from an admin's word that
they fit, or from users who share by shards of their own. Then good pairs are used and bad ones are not.

Fake GPUs are as slow as pairs.json says while two work on them; jobs tell their steps through pal-probe, by a clock
that goes on while they work and not while they wait for a busy machine. Stretches of ten minutes are four seconds
here, and what pald waits for is as much shorter (`QUICK`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.slurm.minicluster import PROJECT, Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings
from tests.slurm.test_pald_forged_steps import PROBE, night, open_spool

GOOD, BAD = 1.25, 1.95
TRUE = f"net+bert={GOOD}/{GOOD},net+vgg={BAD}/{BAD}"
QUICK = """
import sys
from pal_slurm.intake import samples
from pal_slurm.learning import from_jobs, knowledge
samples.STRETCH_S = from_jobs.STRETCH_S = 4.0
from_jobs.HOLD_S, from_jobs.SILENT_S, knowledge.RATES_S = 1.0, 6.0, 1.0
from pal_slurm.cli.pald import main
sys.argv = sys.argv[1:]
sys.exit(main())
"""
WORK = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from palwork_lib.slurm import devices
from palwork_lib.together import Together
from pal_slurm.probe import steps
class Worked:
    now, time = 0.0, time.time
    @classmethod
    def perf_counter(cls):
        return cls.now
sys.modules[steps.__module__].time = Worked
there = Together(Path(os.environ["SLURM_CONF"]).parent.parent, os.environ["SLURMD_NODENAME"], devices(), sys.argv[1])
until = time.time() + float(sys.argv[2])
def batches():
    while time.time() < until:
        yield
for _ in steps(batches(), every=0.5):
    took = 0.1 * there.factor()
    time.sleep(took)
    Worked.now += took
"""
ASKED = [{"app": "net", "beside": "bert", "measure": True}, {"app": "net", "beside": "vgg", "measure": True}]
SETTINGS = {
    "sharing.enabled": True,
    "learning.interval_s": 1,
    "apps": {a: {"class": "A"} for a in ("net", "bert", "vgg")},
}
ALONE_S, LONG_S = 17, 900


class Site:
    """Three GPUs of two shards each, a spool, and a pald for whom ten minutes are four seconds."""

    def __init__(self, cluster: Minicluster, tmp_path: Path) -> None:
        self.cluster, self.spool = cluster, open_spool(cluster, tmp_path)
        self.pald = Pald(cluster, tmp_path, {**SETTINGS, "profile.spool": str(self.spool)})
        self.pald.world = [sys.executable, "-c", QUICK]
        (cluster.dir / "work.py").write_text(WORK)

    def job(self, app: str, seconds: int, gres: str = "gpu:1") -> int:
        watch = [*PROBE, "watch", "--devices", "fake", "--spool", str(self.spool), "--job", "$SLURM_JOB_ID"]
        line = [*watch, "--interval", "0.2", "--line", "1", "--part", "8", "--"]
        work = ["python3", str(self.cluster.dir / "work.py"), app, str(seconds), str(PROJECT / "scripts")]
        options = (f"--gres={gres}", "--mem=100", "-t", "20", f"--comment=app:{app} pal:share")
        return self.cluster.submit(*options, wrap=" ".join([*line, *work]))

    def filled(self, many: int) -> list[int]:
        """Other jobs have so many GPUs whole."""
        jobs = [self.cluster.submit("--gres=gpu:1", "--mem=100", "-t", "20", wrap="sleep 900") for _ in range(many)]
        self.running(*jobs)
        return jobs

    def running(self, *jobs: int) -> None:
        for job in jobs:
            self.cluster.wait_state(job, "RUNNING", within=60)

    def ended(self, *jobs: int) -> None:
        for job in jobs:
            wait_for(lambda job=job: self.cluster.state(job) in ("COMPLETED", ""), f"job {job} ends")  # type: ignore[misc]

    def gone(self, *jobs: int) -> None:
        self.cluster.client("scancel", *map(str, jobs))
        for job in jobs:
            wait_for(lambda job=job: self.cluster.state(job) in ("CANCELLED", ""), f"job {job} is gone")  # type: ignore[misc]

    def where(self, job: int) -> str:
        return self.cluster.fields(job).get("GRES", "")

    def pairs(self) -> dict[tuple[str, str], tuple[str, float | None]]:
        """Source and factor, as they count for root's jobs."""
        rows = json.loads(self.pald.palctl("apps", "--pairs", "--user", "root", "--json"))
        return {(row["app"], row["beside"]): (row["source"], row["factor"]) for row in rows}

    def learned(self, *apps: str) -> None:
        """How long their steps take alone."""

        def bases() -> set[str]:
            rows = json.loads(self.pald.palctl("apps", "--json"))
            return {row["app"] for row in rows if row["measured_base"]}

        wait_for(lambda: set(apps) <= bases(), f"{apps} alone are known")

    def told(self, one: str, other: str, factor: float) -> None:
        """The two directions, from root's own jobs."""
        both = ((one, other), (other, one))
        wait_for(
            lambda: all(self.pairs().get(pair, ("",))[0] == "own" for pair in both), f"{one} beside {other} is known"
        )
        found = self.pairs()
        assert [found[pair][1] for pair in both] == [pytest.approx(factor, rel=0.15)] * 2

    def waiting(self, *jobs: int) -> None:
        for _ in range(2):
            self.pald.wait_cycle()
        assert [self.cluster.state(job) for job in jobs] == ["PENDING"] * len(jobs)


@pytest.fixture
def site(release: str, tmp_path: Path) -> Iterator[Site]:
    name = f"t{os.getpid()}-learns-{release}"
    cluster = Minicluster.up(name, release, "--nodes", "1", "--gpus", "3", "--shards", "2", "--pairs", TRUE)
    lua_settings(cluster, shards="pald")
    made = Site(cluster, tmp_path)
    try:
        with made.pald as pald:
            pald.start()
            night(cluster, pald, made.spool)
            yield made
    finally:
        cluster.down()


def alone(site: Site) -> None:
    """Of nothing nothing is learned: all say pal:share, no pair is known, and nobody is put beside anybody."""
    first = [site.job(app, ALONE_S) for app in ("net", "bert", "vgg")]
    site.running(*first)
    late = site.job("bert", ALONE_S)
    site.waiting(late)
    assert all("shard" not in site.where(job) for job in first)
    assert site.pairs() == {} or {source for source, _ in site.pairs().values()} == {"measure"}
    site.gone(late)
    site.ended(*first)
    site.learned("net", "bert", "vgg")


def used(site: Site) -> None:
    """Of a pair that is known to be good there are as many couples as there is room for."""
    hosts = [site.job("net", LONG_S) for _ in range(2)]
    site.running(*hosts)
    more = site.filled(1)
    guests = [site.job("bert", LONG_S) for _ in range(2)]
    site.running(*guests)
    assert sorted(map(site.where, hosts)) == sorted(map(site.where, guests))
    assert all("times as long there as alone" in site.pald.palctl("why", str(job)) for job in guests)
    site.gone(*hosts, *guests, *more)


def restarted(site: Site, pairs: Sequence[object]) -> None:
    site.pald.stop()
    site.pald.configure({"sharing.pairs": pairs})
    site.pald.start()


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_pair_that_the_admin_asks_to_measure_is_tried_by_one_couple_then_used_or_refused(site: Site) -> None:
    alone(site)
    restarted(site, ASKED)
    assert {source for source, _ in site.pairs().values()} == {"measure"}
    hosts = [site.job("net", 28) for _ in range(2)]
    site.running(*hosts)
    others = site.filled(1)
    guests = [site.job("bert", 20) for _ in range(2)]
    wait_for(lambda: any(site.cluster.state(job) == "RUNNING" for job in guests), "one is put beside another", 60)
    (second,) = [job for job in guests if site.cluster.state(job) != "RUNNING"]
    (first,) = set(guests) - {second}
    assert site.where(first) in map(site.where, hosts)
    site.waiting(second)
    assert "nobody knows yet what the two cost each other" in site.pald.palctl("why", str(first))
    site.gone(second)
    site.ended(*hosts, first)
    site.told("net", "bert", GOOD)
    site.gone(*others)
    used(site)
    host = site.job("net", 28)
    site.running(host)
    others = site.filled(2)
    guest = site.job("vgg", 20)
    site.running(guest)
    assert site.where(guest) == site.where(host)
    site.ended(host, guest)
    site.told("net", "vgg", BAD)
    host = site.job("net", LONG_S)
    site.running(host)
    site.waiting(site.job("vgg", LONG_S))
    site.gone(host, *others)
    restarted(site, [])
    assert site.pairs()["net", "bert"][0] == "own"  # what was shown stays when nobody asks any more


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_pair_that_a_user_showed_by_shards_of_his_own_is_used_by_pald(site: Site) -> None:
    alone(site)
    lua_settings(site.cluster, shards="users")
    both = [site.job(app, 24, "shard:g1:1") for app in ("net", "bert")]
    site.running(*both)
    site.ended(*both)
    lua_settings(site.cluster, shards="pald")
    site.told("net", "bert", GOOD)
    used(site)
