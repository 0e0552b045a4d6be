"""Texts that users choose, on real slurmctlds: they cost their own job its hint, and no other job anything (P9)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import pytest

from pal_slurm.model import Job, Outcome, Pin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import LATER, ThroughCli, ThroughPyslurm
from tests.slurm.minicluster import Minicluster

# What a comment may hold, and whether it costs the hint. NUL can't be tried: no command line can carry one.
COMMENTS: Mapping[str, tuple[bytes, bool]] = {
    "newline": (b"app:x\nmore", True),
    "a whole fake record": (b"app:x\nJobId=1 JobName=fake UserId=root(0) JobState=PENDING Priority=99", True),
    "invalid UTF-8": (b"app:x \xff\xfe", True),
    "half a character": ("app:é".encode()[:-1], True),
    "terminal escapes": (b"app:x \x1b[31;1m\x1b]0;title\x07", True),
    "right-to-left override": ("app:x \u202egnp.exe".encode(), True),
    "a tag that is none": (b"app:-rf", True),
    "a tag too long": (b"app:" + b"x" * 65, True),
    "as long as Slurm takes": (b"app:x " + b"y" * 1018, False),
    "long": (b"y" * 500 + b" app:x", False),
    "long, and mostly blank": (b"y" + b" " * 900 + b" app:x", False),
    "a shell's words": (b"$(id) `id` ; rm -rf / | app:x", False),
    "a group of nodes": (b"@group app:x", False),
    "separators": (b"app:x |,;:=%n%s\\n'\"", False),
    "a forged mark": (b"pal1{b=1;n=gres/gpu:8} app:x", False),
    "SQL": (b"app:x '; DROP TABLE jobs; --", False),
    "HTML": (b"app:x <script>alert(1)</script>", False),
    "empty": (b"", False),
}
EVIL = b"evil\nJobId=%d JobName=x UserId=root(0) JobState=RUNNING   Nodes=n1 CPU_IDs=0 Mem=1 GRES=gpu:g0:1(IDX:0) "


class Hostile:
    def test_a_comment_costs_its_own_job_the_hint_and_nothing_else(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        victim = submit(minicluster, "--comment=app:resnet", "--gres=gpu:2")
        ids = {name: submit(minicluster, b"--comment=" + text, "--gres=gpu:1") for name, (text, _) in COMMENTS.items()}
        last = submit(minicluster, "--comment=app:bert", "--gres=gpu:3")
        snapshot = slurm.snapshot()
        jobs = {job.id: job for job in snapshot.pending}
        assert list(jobs) == sorted([victim, *ids.values(), last])
        told = {name: (jobs[job].hint.app, jobs[job].hint.dropped) for name, job in ids.items()}
        wanted = {
            name: (None, True) if drops else ("x" if text else None, False) for name, (text, drops) in COMMENTS.items()
        }
        assert told == wanted
        assert snapshot.dropped_hints == sum(drops for _, drops in COMMENTS.values())
        assert snapshot.unread == ()
        assert all(jobs[job].lease is None for job in ids.values())
        assert_plain(jobs[victim], "resnet", 2)
        assert_plain(jobs[last], "bert", 3)

    def test_a_text_longer_than_any_that_is_read_costs_its_own_job_alone(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        array = submit(minicluster, "--array=0-499", "--hold")
        after = ":".join(f"{array}_{task}" for task in range(500))  # 13 KB in squeue
        long = submit(minicluster, f"--dependency=afterany:{after}", "--gres=gpu:1")
        snapshot = slurm.snapshot()
        assert snapshot.unread == (), "that would keep everybody from passing without a lease"
        if long not in {job.id for job in snapshot.pending}:
            [said] = snapshot.too_long
            assert said == f"job {long}: its Dependency is longer than anything pal-slurm reads"

    def test_no_other_text_of_a_job_shifts_or_forges_a_record(self, slurm: Slurm, minicluster: Minicluster) -> None:
        victim = submit(minicluster, "--comment=app:resnet", "--gres=gpu:2")
        fake = EVIL % victim
        # Without slurmdbd even the account is the user's own free text.
        hostile = submit(
            minicluster, b"-J" + fake, b"-A" + fake, b"--wckey=" + fake, b"--comment=" + fake, "--gres=gpu:1"
        )
        after = submit(minicluster, "--comment=app:bert", "--gres=gpu:3")
        snapshot = slurm.snapshot()
        jobs = {job.id: job for job in snapshot.pending}
        assert list(jobs) == [victim, hostile, after]
        assert snapshot.running == () and snapshot.dropped_hints == 1
        assert_plain(jobs[victim], "resnet", 2)
        assert_plain(jobs[after], "bert", 3)
        assert jobs[hostile].account.isprintable()

    def test_a_running_job_can_not_claim_the_devices_of_another(self, slurm: Slurm, minicluster: Minicluster) -> None:
        victim = submit(minicluster, "--gres=gpu:2", "-w", "n1", later=False)
        minicluster.wait_state(victim, "RUNNING")
        liar = submit(minicluster, b"-J" + EVIL % victim, "--gres=gpu:1", "-w", "n1", later=False)
        minicluster.wait_state(liar, "RUNNING")
        running = {job.id: job for job in slurm.snapshot().running}
        assert set(running) == {victim, liar}
        assert running[victim].gpus == ((0, 1),)
        assert running[liar].gpus in (((2,),), ((),))  # its own, or unknown

    def test_edits_of_hostile_jobs_reach_these_jobs_only(self, slurm: Slurm, minicluster: Minicluster) -> None:
        # Nobody can tell which devices a running job with such a name has: what they are pinned to is taken.
        minicluster.wait_state(submit(minicluster, "--gres=gpu:4", "-w", "n2", later=False), "RUNNING")
        victim = submit(minicluster, "--gres=gpu:1")
        texts = (
            b"x\nupdate jobid=%d nice=100" % victim,
            b"x; update jobid=%d" % victim,
            b"x\nshutdown",
            b"\xff\x00"[:1],
        )
        ids = [submit(minicluster, b"-J" + text, b"--comment=" + text, "--gres=gpu:2") for text in texts]
        before = slurm.jobs([victim])[victim]
        stands = slurm.jobs(ids)
        results = slurm.apply([Pin(job, nodes=("n2",), slots=(0, 1), original=stands[job].request) for job in ids])
        assert {result.outcome for result in results} == {Outcome.DONE}, results
        assert slurm.jobs([victim])[victim] == before
        assert "Nice=0" in minicluster.client("scontrol", "show", "job", str(victim))

    def test_a_comment_of_60_kb_reaches_nobody(self, slurm: Slurm, minicluster: Minicluster) -> None:
        # Slurm's own limit is 1,024 bytes, at submission and later; a release that lifted it would be caught here.
        job = submit(minicluster, "--gres=gpu:1", "--comment=app:resnet")
        done = minicluster.run("scontrol", "update", f"jobid={job}", f"comment=app:x {'y' * 60_000}")
        assert done.returncode != 0
        assert slurm.jobs([job])[job].hint.app == "resnet"


class TestThroughCli(ThroughCli, Hostile):
    pass


@pytest.mark.slurm("26.05")
class TestThroughPyslurm(ThroughPyslurm, Hostile):
    pass


def assert_plain(job: Job, app: str, gpus: int) -> None:
    assert (job.hint.app, job.hint.dropped, job.user, job.reason in ("None", "BeginTime")) == (app, False, "root", True)
    assert job.shape and job.shape.gpus_per_node == gpus
    assert job.partitions == ("gpu",)


def submit(cluster: Minicluster, *options: str | bytes, later: bool = True) -> int:
    """sbatch with options of any bytes."""
    command: list[str | bytes] = [str(cluster.bin / "sbatch"), "--parsable", "-o", "/dev/null", "-D", "/"]
    done = subprocess.run(
        [*command, *([LATER] if later else []), *options, "--wrap", "sleep 300"],
        capture_output=True, timeout=30, cwd="/", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split(b";")[0])
