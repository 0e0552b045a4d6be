"""The watcher: which job a GPU serves, what its file holds, who may report steps, and what a kill leaves behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.probe import reporting
from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Device, Fault, JobPart, StepTimes
from pal_slurm.probe.inventory import Found, Inventory
from pal_slurm.probe.jobfile import JobFile, salvage
from pal_slurm.probe.owners import began, job_of
from pal_slurm.probe.reading import read
from pal_slurm.probe.reporting import Report, parse
from pal_slurm.probe.step_socket import MOST_OF_USER, StepSocket, with_sender
from pal_slurm.probe.steps import Steps
from pal_slurm.probe.watching import Watcher, WatchPlan
from tests.probe.helpers import NOW, card, command, describe, environment, probe

DEVICES = tuple(Device(f"GPU-{slot}", "n1", slot, "a100", "fake") for slot in range(2))


class Stopwatch:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class Node:
    """A watcher with a clock, a /proc and a spool that the test holds in its hands."""

    def __init__(self, path: Path, job: str | None = None) -> None:
        self.proc, self.spool, self.clock = path / "proc", path / "spool", Stopwatch()
        plan = WatchPlan("fake", self.spool, job, 10.0, 60.0, 1800.0, path / "s", "pal-probe test", self.proc)
        found = tuple(Found(i, device) for i, device in enumerate(DEVICES))
        self.watcher = Watcher(plan, Inventory("fake", "cpu", found, ()), self.clock)

    def process(self, pid: int, cgroup: str, uid: int = 1000, ticks: int = 5) -> None:
        (self.proc / str(pid)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(pid) / "cgroup").write_text(cgroup)
        (self.proc / str(pid) / "status").write_text(f"Name:\ta\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (self.proc / str(pid) / "stat").write_text(f"{pid} (a) S 1 " + "0 " * 17 + f"{ticks} 0")

    def reports(self, report: Report, pid: int, uid: int) -> None:
        self.watcher.reported(with_sender(report, pid, uid, self.proc))

    def works(self, slot: int, *pids: int, turns: int = 1, **sample: float) -> None:
        for _ in range(turns):
            self.clock.sleep(10.0)
            self.watcher.sampled(f"GPU-{slot}", Sample(**sample, pids=pids))  # type: ignore[arg-type]
            self.watcher.tick()

    def parts(self) -> list[JobPart]:
        found = []
        for path in sorted(self.spool.glob("job-*.jsonl")):
            reading = read(path.read_bytes(), self.clock.now())
            assert reading.part is not None, reading.defects
            found.append(reading.part)
        return found


STEP = StepTimes(0, NOW, NOW + 10, 100, 10.0, 0.09, 0.2)
V2 = "0::/system.slice/slurmstepd.scope/job_{}/step_0/user/task_0\n"
V1 = "9:devices:/slurm/uid_1000/job_{0}/step_batch\n4:memory:/slurm/uid_1000/job_{0}/step_batch/task_0\n"


@pytest.mark.parametrize("cgroup", [V1, V2])
def test_the_job_of_a_process_is_told_by_its_control_group(tmp_path: Path, cgroup: str) -> None:
    node = Node(tmp_path)
    node.process(7, cgroup.format(77))
    assert job_of(7, node.proc) == "77"


@pytest.mark.parametrize("cgroup", ["", "0::/user.slice\n", V2.format(1) + V2.format(2), "0::/x/job_1x/step_0\n"])
def test_a_process_of_no_job_or_of_two_belongs_to_nobody(tmp_path: Path, cgroup: str) -> None:
    node = Node(tmp_path)
    node.process(7, cgroup)
    assert job_of(7, node.proc) is None and job_of(8, node.proc) is None


def test_a_job_gets_one_file_with_a_line_per_gpu_and_minute(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=7, util_compute=0.5, sm_active=0.25)
    node.works(0, 7, turns=6, util_compute=0.7)
    node.watcher.end()
    [part] = node.parts()
    assert (part.job, part.node, part.part, part.last) == ("77", "n1", 0, False)
    assert [device.uuid for device in part.devices] == ["GPU-0"]
    assert [round(usage.telemetry.util_compute or 0, 2) for usage in part.usage] == [0.5, 0.7]
    assert part.usage[0].telemetry.sm_active == 0.25
    assert sum(usage.telemetry.samples for usage in part.usage) == 13


def test_nothing_is_in_the_spool_before_a_part_is_whole(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=8)
    assert [path.name[0] for path in node.spool.iterdir()] == ["."]
    node.watcher.end()
    assert [path.name for path in node.spool.iterdir()] == [f"job-77-n1-{NOW + 10:.0f}-0000.jsonl"]


def test_a_long_job_is_told_in_parts_so_that_the_head_sees_it_within_the_hour(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=400)
    assert [part.part for part in node.parts()] == [0, 1]
    node.watcher.end()


def test_a_gpu_that_joins_later_begins_a_part_that_names_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=7)
    node.works(1, 7, turns=7)
    node.watcher.end()
    assert [[device.uuid for device in part.devices] for part in node.parts()] == [["GPU-0"], ["GPU-1"]]


def test_a_job_whose_processes_are_gone_is_over(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=3)
    node.works(0, turns=10)
    [part] = node.parts()
    assert part.last and len(part.usage) == 1


def test_two_jobs_on_one_node_have_a_file_each(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.process(8, V1.format(78))
    node.works(0, 7)
    node.works(1, 8)
    node.watcher.end()
    assert [(part.job, part.devices[0].uuid) for part in node.parts()] == [("77", "GPU-0"), ("78", "GPU-1")]


def test_a_gpu_that_two_jobs_share_is_counted_for_neither(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.process(8, V2.format(78))
    node.works(0, 7, 8)
    node.watcher.end()
    assert not node.spool.exists()


def test_steps_are_taken_from_a_process_of_that_job_only(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.process(8, V2.format(78))
    node.works(0, 7)
    node.reports(Report("77", STEP), 7, 1000)
    node.reports(Report("77", STEP), 8, 1000)  # another job lies
    node.reports(Report("77", STEP), 9, 0)  # a process of no job
    node.watcher.end()
    assert [part.steps for part in node.parts()] == [(STEP,)]


def test_a_process_whose_number_is_another_user_s_by_now_speaks_for_nobody(tmp_path: Path) -> None:
    """It sent a report in the other's name, ended, and its number came round again in the other's job."""
    node = Node(tmp_path)
    node.process(7, V2.format(77), uid=1000)
    node.works(0, 7)
    node.reports(Report("77", STEP), 7, 1001)
    node.watcher.end()
    assert [part.steps for part in node.parts()] == [()]


GARBAGE = """
import os, socket, time
from pal_slurm.probe.reporting import report_once
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
    for _ in range(11):
        out.sendto(b"garbage", os.environ["PAL_PROBE_SOCKET"])
        time.sleep(0.02)
time.sleep(0.3)
report_once(12.5, 50, None)
"""


def test_eleven_garbage_datagrams_silence_nobody(tmp_path: Path) -> None:
    """The kernel's queue holds ten, and the watcher's next turn is a minute away."""
    result, [part] = wrapped(tmp_path, GARBAGE, "--interval", "60")
    assert result.returncode == 0, result.stderr
    assert [(s.count, s.seconds) for s in part.steps] == [(50, 12.5)]


def test_of_one_user_so_many_reports_are_kept_between_two_turns(tmp_path: Path) -> None:
    ear = StepSocket(tmp_path / "s", tmp_path / "proc")
    ear.open()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        good = json.dumps({"job": "7", **asdict(STEP)}).encode()
        for n in range(MOST_OF_USER + 100):
            out.sendto(b"garbage" if n % 2 else good, str(tmp_path / "s"))
    ear.close()
    assert len(list(ear.turn())) == MOST_OF_USER / 2


def test_a_user_who_watches_an_own_job_may_report_without_control_groups(tmp_path: Path) -> None:
    node = Node(tmp_path, job="77")
    node.reports(Report("77", STEP), 9, os.getuid())
    node.reports(Report("77", STEP), 9, os.getuid() + 1)
    node.reports(Report("78", STEP), 9, os.getuid())
    node.watcher.end()
    assert [(part.job, part.steps, part.last) for part in node.parts()] == [("77", (STEP,), True)]


def test_steps_of_more_time_than_the_job_had_are_left_out_and_told(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7)
    before = [replace(STEP, begun_at=NOW - 600 * n, ended_at=NOW - 600 * n + 10) for n in range(7, 0, -1)]
    for each in [*before, STEP, STEP]:
        node.reports(Report("77", each), 7, 1000)
    node.watcher.end()
    [part] = node.parts()
    assert part.steps == (STEP,)
    assert [fault.what for fault in part.faults] == [
        "8 step reports of the job left out: it begins 4210 s before the job did here"
    ]


def test_a_job_step_began_when_its_oldest_process_did(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.proc / "stat").parent.mkdir(exist_ok=True)
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, parent, seconds, job in ((5, 1, 10, 76), (6, 5, 20, 77), (7, 6, 900, 77)):
        node.process(pid, V2.format(job))
        fields = f"{pid} (a) b) S {parent} " + "0 " * 17 + f"{seconds * ticks} 0"
        (node.proc / str(pid) / "stat").write_text(fields)
    assert began(7, node.proc) is None
    (node.proc / "stat").write_text(f"cpu 1 2\nbtime {NOW - 1000:.0f}\n")
    assert began(7, node.proc) == NOW - 980
    assert began(8, node.proc) is None


def test_the_file_says_whose_processes_they_were(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.process(8, V2.format(78), uid=1234)
    node.works(0, 7)
    node.reports(Report("78", STEP), 8, 1234)
    node.watcher.end()
    assert [(part.job, part.user) for part in node.parts()] == [("77", os.getuid()), ("78", 1234)]


def part_bytes(tmp_path: Path) -> bytes:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.works(0, 7, turns=14)
    node.reports(Report("77", STEP), 7, 1000)
    node.watcher.end()
    [path] = node.spool.glob("job-*.jsonl")
    return path.read_bytes()


def test_a_part_cut_off_anywhere_is_torn(tmp_path: Path) -> None:
    whole = part_bytes(tmp_path)
    assert read(whole, NOW + 999).part is not None
    for cut in range(len(whole)):
        reading = read(whole[:cut], NOW + 999)
        assert reading.part is None and reading.document is None, cut
        assert any(defect.what.startswith("torn: ") for defect in reading.defects), (cut, reading.defects)


def test_a_part_that_lacks_a_line_is_told_so(tmp_path: Path) -> None:
    lines = part_bytes(tmp_path).splitlines(keepends=True)
    reading = read(b"".join(lines[:1] + lines[2:]), NOW + 999)
    assert "lines are missing" in str(reading.defects[0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"uuid": "GPU-9"}, "'GPU-9' is none of the devices"),
        ({"ended_at": NOW * 1000}, "milliseconds"),
        ({"line": "party"}, "line 2.line: 'party' is none of"),
        ({"telemetry": {"samples": 1, "reasons": {}, "sm_active": 88}}, "not percent"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    lines = part_bytes(tmp_path).splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change}).encode()
    reading = read(b"\n".join(lines) + b"\n", NOW + 999)
    assert reading.part is None and said in "\n".join(str(defect) for defect in reading.defects)


@given(st.binary(max_size=200) | st.dictionaries(st.text(), st.integers() | st.floats() | st.text()).map(
    lambda fields: json.dumps({**fields, "job": "1"}).encode()))  # fmt: skip
@settings(deadline=None)
def test_no_datagram_makes_the_watcher_fail(data: bytes) -> None:
    assert parse(data) is None


@pytest.mark.parametrize(
    "change", [{"seconds": float("nan")}, {"count": 0}, {"fastest": 3.0}, {"job": "x"}, {"app": "a b"}]
)
def test_a_report_that_can_not_be_is_dropped(change: dict[str, object]) -> None:
    good = {
        "job": "1", "rank": 0, "begun_at": NOW, "ended_at": NOW, "count": 1, "seconds": 1.0, "fastest": 1.0,
        "slowest": 1.0,
    }  # fmt: skip
    assert parse(json.dumps(good).encode()) is not None
    assert parse(json.dumps({**good, **change}).encode()) is None


def test_what_a_killed_watcher_left_is_closed_by_the_next_one(tmp_path: Path) -> None:
    source, spool = describe(tmp_path / "gpus", card(0)), tmp_path / "spool"
    words = ["watch", "--devices", source, "--spool", str(spool), "--job", "42", "--interval", "0.05", "--line", "0.1"]
    running = subprocess.Popen(command(*words), env=environment())
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 2000 for path in spool.glob(".job*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert salvage(spool, "n1", time.time()) == [], "a file that is being written is left alone"
    running.kill()
    running.wait()
    [left] = spool.glob(".job*")
    with left.open("ab") as file:
        file.write(b'{"line":"usage","uu')  # the power went in the middle of a line
    [saved] = salvage(spool, "n1", time.time())
    part = read(saved.read_bytes(), time.time()).part
    assert part is not None and len(part.usage) >= 2 and not part.last


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user who may list nothing there")
def test_a_user_leaves_a_file_in_a_spool_that_he_can_not_list() -> None:
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o711)
        spool = Path(home) / "spool"
        spool.mkdir()
        spool.chmod(0o3733)
        os.seteuid(65534)
        try:
            assert salvage(spool, "n1", NOW) == []
            made = JobFile(spool, "7", "n1", 0, "test", None, DEVICES, NOW)
            made.write((), [STEP])
            assert made.close(NOW + 20, last=True) == spool / made.name
        finally:
            os.seteuid(0)
        assert read((spool / made.name).read_bytes(), NOW + 30).part is not None


def test_what_is_not_ours_in_the_spool_is_not_closed(tmp_path: Path) -> None:
    """A user made it before pal's watcher came: a link to a file of pal's, or his own."""
    spool, target = tmp_path / "spool", tmp_path / "target"
    spool.mkdir()
    target.write_text("one line\ntwo lines\nthree")
    (spool / ".job-1-n1-1-0000.jsonl.part").symlink_to(target)
    (spool / ".job-2-n1-1-0000.jsonl.part").hardlink_to(target)
    os.mkfifo(spool / ".job-3-n1-1-0000.jsonl.part")
    (spool / ".job-4-n1-1-0000.jsonl.part").mkdir()
    assert salvage(spool, "n1", time.time()) == []
    assert target.read_text() == "one line\ntwo lines\nthree"


def wrapped(tmp_path: Path, code: str, *words: str) -> tuple[subprocess.CompletedProcess[str], list[JobPart]]:
    source, spool = describe(tmp_path / "gpus", card(0), card(1)), tmp_path / "spool"
    options = ["--devices", source, "--spool", str(spool), "--interval", "0.1", "--line", "0.2", *words]
    env = {"SLURM_JOB_ID": "42", "PAL_APP": "resnet"}
    result = probe("watch", "--job", "42", *options, "--", sys.executable, "-c", code, env=env)
    parts = [read(path.read_bytes(), time.time()).part for path in sorted(spool.glob("job-*"))]
    return result, [part for part in parts if part is not None]


def test_a_job_that_is_run_under_the_watcher_is_told_with_its_steps(tmp_path: Path) -> None:
    code = (
        "import time; from pal_slurm.probe import steps\n"
        "for batch in steps(range(21), app='resnet50'): time.sleep(0.02)\n"
        "with steps(every=0.1) as step:\n    for _ in range(21): time.sleep(0.02); step()\n"
    )
    result, [part] = wrapped(tmp_path, code)
    assert result.returncode == 0, result.stderr
    assert (part.job, part.app, part.last) == ("42", "resnet", True)
    assert {usage.uuid for usage in part.usage} == {"GPU-0", "GPU-1"}
    counted = {app: sum(s.count for s in part.steps if s.app == app) for app in ("resnet50", None)}
    assert counted == {"resnet50": 20, None: 20}, "the first step is not counted: it loads and tunes"
    assert min(s.fastest for s in part.steps) >= 0.02


def test_fake_devices_of_a_mini_cluster_are_as_busy_as_the_app_makes_them(tmp_path: Path) -> None:
    (tmp_path / "speeds.json").write_text('{"n1": {"g0": {"A": 1.0}}}')
    (tmp_path / "spec.json").write_text('{"name": "x", "models": {}}')
    (tmp_path / "apps.json").write_text('{"resnet": {"util_compute": 0.9, "util_memory": 0.25}}')
    words = [
        "--job",
        "42",
        "--devices",
        "fake",
        "--spool",
        str(tmp_path / "spool"),
        "--interval",
        "0.1",
        "--line",
        "0.2",
    ]
    env = {"SLURM_CONF": str(tmp_path / "etc/slurm.conf"), "SLURMD_NODENAME": "n1", "PAL_APP": "resnet"}
    assert probe("watch", *words, "--", "sleep", "3", env=env).returncode == 0
    [path] = (tmp_path / "spool").iterdir()
    part = read(path.read_bytes(), time.time()).part
    assert part is not None
    assert (part.usage[0].telemetry.util_compute, part.usage[0].telemetry.util_memory) == (0.9, 0.25)


def test_steps_can_be_reported_by_a_command(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'pal_slurm.probe', 'step', '12.5', '--count', '50'], check=True)"
    )
    _, [part] = wrapped(tmp_path, code)
    assert [(s.count, s.seconds, s.fastest) for s in part.steps] == [(50, 12.5, 0.25)]


def test_the_exit_code_is_the_commands(tmp_path: Path) -> None:
    assert wrapped(tmp_path, "raise SystemExit(7)")[0].returncode == 7
    assert wrapped(tmp_path, "import os; os.kill(os.getpid(), 9)")[0].returncode == 137


def test_sigterm_ends_the_command_and_the_file(tmp_path: Path) -> None:
    source, spool, mark = describe(tmp_path / "gpus", card(0)), tmp_path / "spool", tmp_path / "mark"
    words = ["watch", "--devices", source, "--spool", str(spool), "--job", "42", "--interval", "0.05", "--line", "0.1"]
    code = f"import time; time.sleep(1); open({str(mark)!r}, 'w'); time.sleep(100)"
    running = subprocess.Popen(command(*words, "--", sys.executable, "-c", code), env=environment())
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 143
    [path] = spool.glob("job-42-*")
    part = read(path.read_bytes(), time.time()).part
    assert part is not None and part.last


def test_a_job_without_a_watcher_does_not_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAL_PROBE_SOCKET", str(tmp_path / "nobody"))
    assert not reporting.send(STEP)
    assert list(Steps(range(3), every=0.0)) == [0, 1, 2]


def test_a_watcher_that_is_busy_never_makes_a_job_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    monkeypatch.setenv("PAL_PROBE_SOCKET", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(path))
        sent = [reporting.send(STEP) for _ in range(5000)]
    assert sent[0] and not sent[-1]


def test_a_gpu_that_is_lost_in_the_middle_of_a_job_is_told_in_its_file(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.process(7, V2.format(77))
    node.process(8, V2.format(78))
    node.works(0, 7)
    node.works(1, 8)
    node.watcher.failed(Fault("the GPU has fallen off the bus", "GPU-0"))
    node.watcher.end()
    assert [[fault.what for fault in part.faults] for part in node.parts()] == [["the GPU has fallen off the bus"], []]


def test_a_node_without_a_device_that_answers_is_not_watched(tmp_path: Path) -> None:
    source = describe(tmp_path / "gpus", card(0, fault="lost"))
    result = probe("watch", "--devices", source, "--spool", str(tmp_path), "--socket", str(tmp_path / "s"))
    assert result.returncode == 69 and "slot 0: the GPU has fallen off the bus" in result.stderr


def test_a_job_with_a_lost_gpu_is_watched_on_the_others(tmp_path: Path) -> None:
    source, spool = describe(tmp_path / "gpus", card(0, fault="lost"), card(1)), tmp_path / "spool"
    words = ["--devices", source, "--spool", str(spool), "--job", "42", "--interval", "0.1", "--line", "0.2"]
    assert probe("watch", *words, "--", "sleep", "1").returncode == 0
    [path] = spool.glob("job-*")
    part = read(path.read_bytes(), time.time()).part
    assert part is not None
    assert {usage.uuid for usage in part.usage} == {"GPU-1"}
