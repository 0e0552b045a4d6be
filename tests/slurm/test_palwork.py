"""palwork on real clusters: a slow GPU makes the job slow, as speeds.json says; it saves and resumes, or misbehaves."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.worklog import WorkLog

pytestmark = [pytest.mark.slurm(turns=("22.05", "24.11", "26.05")), pytest.mark.every(2)]


class Report(TypedDict):
    """The line that palwork prints."""

    node: str
    gpus: list[str]
    span: str
    steps: int
    seconds: float
    true_step_time: float


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    """n1.g1 is twice as slow for class A, n3.g0 three times for class B."""
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps({"n1": {"g1": {"A": 2.0}}, "n3": {"g0": {"B": 3.0}}}))
    return path


def work(cluster: Minicluster, *options: str, words: str = "") -> list[Report]:
    line = f"palwork --steps 4 --base 0.05 {words}".split()
    out = cluster.client("srun", *options, *line)
    return sorted((json.loads(text) for text in out.splitlines()), key=lambda report: report["node"])


def begin(cluster: Minicluster, tmp_path: Path, words: str, *options: str, run: str = "exec") -> tuple[int, WorkLog]:
    """A batch job that saves into tmp_path and has done a step."""
    name = f"w{len(list(tmp_path.iterdir()))}"
    log = WorkLog(tmp_path / name)
    line = f"{run} palwork --base 0.02 --log {log.path} --checkpoint {tmp_path / name}.saved {words}"
    job = cluster.submit("--gres=gpu:1", "--requeue", *options, wrap=line)
    wait_for_step(log, 1, copy=None)
    return job, log


def wait_for_step(log: WorkLog, step: int, run: int | None = None, copy: int | None = 0) -> None:
    wait_for(lambda: max(log.steps(run, copy), default=0) >= step, f"palwork does step {step}")


def start_again(cluster: Minicluster, job: int) -> None:
    """What pald does: once nothing of the old run is left, and not in the same second, the new one may begin."""
    cluster.wait_state(job, "PENDING")
    second = int(time.time())
    wait_for(lambda: int(time.time()) > second, "the next second")
    cluster.client("scontrol", "update", f"JobId={job}", "StartTime=now")


def test_the_slowest_gpu_sets_the_pace(make_minicluster: Callable[..., Minicluster], speeds: Path) -> None:
    cluster = make_minicluster("--nodes", "3", "--rack-size", "2", "--speeds", str(speeds))
    (one,) = work(cluster, "-w", "n1", "--gres=gpu:1")
    assert (one["gpus"], one["span"], one["true_step_time"]) == (["g0"], "gpu", 0.05)
    (two,) = work(cluster, "-w", "n1", "--gres=gpu:2", words="--comm-node 1.5")
    assert (two["gpus"], two["span"]) == (["g0", "g1"], "node")
    assert two["true_step_time"] == pytest.approx(0.05 * 2.0 * 1.5)
    # A sleep never ends early: the steps really took that long.
    assert two["seconds"] >= 4 * two["true_step_time"]
    (other,) = work(cluster, "-w", "n1", "--gres=gpu:2", words="--class C")
    assert other["true_step_time"] == pytest.approx(0.05)


def test_the_span_of_a_job_over_racks_counts(make_minicluster: Callable[..., Minicluster], speeds: Path) -> None:
    cluster = make_minicluster("--nodes", "3", "--rack-size", "2", "--speeds", str(speeds))
    first, second = work(cluster, "-w", "n1,n2", "-N2", "--gres=gpu:1", words="--comm-rack 1.2")
    assert (first["node"], second["node"], first["span"]) == ("n1", "n2", "rack")
    assert first["true_step_time"] == pytest.approx(0.05 * 1.2)
    near, far = work(cluster, "-w", "n2,n3", "-N2", "--gres=gpu:1", words="--class B --comm-cluster 1.3")
    assert near["span"] == far["span"] == "cluster"
    assert near["true_step_time"] == pytest.approx(0.05 * 1.3)
    assert far["true_step_time"] == pytest.approx(0.05 * 3.0 * 1.3)


def test_a_terminated_palwork_tells_how_far_it_got(minicluster: Minicluster, tmp_path: Path) -> None:
    out = minicluster.dir / "run" / "palwork.out"
    job, log = begin(minicluster, tmp_path, "--steps 1000", f"--output={out}")
    minicluster.client("scancel", "--signal=TERM", "--batch", str(job))
    minicluster.wait_state(job, "FAILED", "CANCELLED")
    report: Report = json.loads(next(line for line in out.read_text().splitlines() if line.startswith("{")))
    assert 1 <= report["steps"] == max(log.steps()) < 1000


def test_it_saves_on_a_signal_requeues_itself_and_goes_on_at_the_saved_step(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    job, log = begin(minicluster, tmp_path, "--steps 150 --on USR1=requeue --save-time 0.2 --load-time 0.2")
    minicluster.client("scancel", "--signal=USR1", "--batch", str(job))
    start_again(minicluster, job)
    minicluster.wait_state(job, "COMPLETED")
    (saved,) = log.lines("saved")
    assert log.resumed(1) == [saved["step"]]
    assert log.steps(1) == list(range(saved["step"] + 1, 151))
    assert log.steps(0)[: saved["step"]] == list(range(1, saved["step"] + 1))
    (load,) = log.lines("start", 1)
    assert log.lines("resumed", 1)[0]["at"] - load["at"] >= 0.2
    assert len(log.dead_times()) == 1


def test_the_copies_of_a_step_go_on_together_where_the_slowest_had_saved(
    make_minicluster: Callable[..., Minicluster], speeds: Path, tmp_path: Path
) -> None:
    speeds.write_text(json.dumps({"n1": {f"g{slot}": {"B": 5.0} for slot in range(4)}}))
    cluster = make_minicluster("--nodes", "2", "--speeds", str(speeds))
    words = "--steps 60 --on USR1=requeue --class B"
    job, log = begin(cluster, tmp_path, words, "-N2", "--ntasks-per-node=1", run="srun")
    wait_for(lambda: all(len(log.steps(copy=copy)) > 3 for copy in (0, 1)), "both are at work")
    cluster.client("scancel", "--signal=USR1", str(job))
    start_again(cluster, job)
    cluster.wait_state(job, "COMPLETED")
    saved = {line["copy"]: line["step"] for line in log.lines("saved", copy=None)}
    assert saved[0] < saved[1]
    assert log.resumed(1, copy=None) == [saved[0]] * 2
    for copy in (0, 1):
        assert log.steps(1, copy) == list(range(saved[0] + 1, 61))
    asked = [line for line in log.lines("scontrol", copy=None) if line["words"][0] == "requeue"]
    assert [line["copy"] for line in asked] == [0]
    assert asked[0]["code"] in (0, -15)  # it may be ended by the very requeue that it asked for


def test_each_manner_answers_a_signal_in_its_own_way(minicluster: Minicluster, tmp_path: Path) -> None:
    """The shape of what a move will meet: only what was asked for is saved, and the job ends as its manner says."""
    words = {
        "ignore": "", "go-on": "", "die": "", "zero": "", "fail": "", "exit": "", "stop": "",
        "requeue-twice": "", "change": "--change TimeLimit=7",
    }  # fmt: skip
    begun = {
        how: begin(minicluster, tmp_path, f"--steps 100000 --on USR1={how} {more}", "--time=5")
        for how, more in words.items()
    }
    for job, _ in begun.values():
        minicluster.client("scancel", "--signal=USR1", "--batch", str(job))
    ends = {"die": ("FAILED", "0:10"), "zero": ("COMPLETED", "0:0"), "fail": ("FAILED", "1:0")}
    ends |= {"exit": ("FAILED", "138:0"), "stop": ("FAILED", "138:0")}
    for how, (state, code) in ends.items():
        minicluster.wait_state(begun[how][0], state)
        assert minicluster.fields(begun[how][0])["ExitCode"] == code, how
    for how in ("ignore", "go-on"):
        job, log = begun[how]
        (came,) = log.lines("signal")
        wait_for_step(log, came["step"] + 3)
        assert minicluster.state(job) == "RUNNING"
    for how, asked in (("requeue-twice", 2), ("change", 1)):
        job, log = begun[how]
        minicluster.wait_state(job, "PENDING")
        assert int(minicluster.fields(job)["Restarts"]) >= 1
        assert len([line for line in log.lines("scontrol") if line["words"][0] == "requeue"]) <= asked
    assert minicluster.client("squeue", "-h", "-j", str(begun["change"][0]), "-o", "%l").strip() == "7:00"
    saved = {how for how, (_, log) in begun.items() if log.lines("saved")}
    assert saved == {"go-on", "exit", "requeue-twice", "change"}


def test_what_was_torn_or_is_never_read_begins_at_zero(minicluster: Minicluster, tmp_path: Path) -> None:
    torn, torn_log = begin(minicluster, tmp_path, "--steps 1000 --on USR1=go-on --tear --save-time 600")
    never, never_log = begin(minicluster, tmp_path, "--steps 1000 --on USR1=requeue --from-zero")
    deaf, deaf_log = begin(minicluster, tmp_path, "--steps 1000 --every 5 --on TERM=ignore")
    for job in (torn, never):
        minicluster.client("scancel", "--signal=USR1", "--batch", str(job))
    wait_for(lambda: torn_log.lines("saving") != [] and len(deaf_log.lines("saved")) > 1, "they save")
    minicluster.client("scontrol", "requeue", f"{torn},{deaf}")  # both are killed: one saves too slowly
    for job, log in ((torn, torn_log), (never, never_log), (deaf, deaf_log)):
        start_again(minicluster, job)
        wait_for_step(log, 1, run=1)
    assert [line["checkpoint"] for log in (torn_log, never_log) for line in log.lines("began", 1)] == ["torn", "whole"]
    assert torn_log.steps(1)[0] == never_log.steps(1)[0] == 1
    assert deaf_log.resumed(1) == [deaf_log.lines("saved", 0)[-1]["step"]]


def test_without_gpus_it_runs_at_the_base_pace(minicluster: Minicluster) -> None:
    (report,) = work(minicluster)
    assert (report["gpus"], report["true_step_time"]) == ([], 0.05)


@pytest.mark.slurm("26.05")
def test_two_on_one_fake_gpu_slow_each_other_by_what_their_pair_costs(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--nodes", "1", "--gpus", "2", "--shards", "2", "--pairs", "resnet+bert=1.4/1.2")

    def begun(app: str, gres: str) -> tuple[int, WorkLog]:
        log = WorkLog(tmp_path / f"{app}{len(list(tmp_path.iterdir()))}")
        line = f"exec palwork --app {app} --base 0.05 --steps 4000 --log {log.path}"
        job = cluster.submit(f"--gres={gres}", "--mem=100", wrap=line)
        wait_for_step(log, 2, copy=None)
        return job, log

    def beside(log: WorkLog) -> float:
        """Of its newest step."""
        return float(log.lines("step")[-1].get("beside", 1.0))

    first, resnet = begun("resnet", "shard:g1:1")
    _, elsewhere = begun("lstm", "shard:g0:1")
    assert (beside(resnet), beside(elsewhere)) == (1.0, 1.0)
    second, bert = begun("bert", "shard:g1:1")
    wait_for(lambda: beside(resnet) == 1.4, "resnet feels it")
    assert (beside(bert), beside(elsewhere)) == (1.2, 1.0)
    cluster.client("scancel", "--signal=KILL", "--full", str(second))  # it can clear nothing away
    wait_for(lambda: beside(resnet) == 1.0, "resnet is alone again")
    _, other = begun("lstm", "shard:g1:1")
    wait_for(lambda: beside(resnet) == 2.0, "nobody told of that pair: they take turns")
    assert beside(other) == 2.0
    cluster.client("scancel", str(first))
    wait_for(lambda: beside(other) == 1.0, "alone")
