"""pal-run around real processes. Only Slurm's scontrol is a script here that writes down what it was asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pal_slurm.probe.running.evidence import Evidence
from pal_slurm.probe.running.tasks import job_of
from tests.probe.helpers import ROOT, environment

# An application: says each signal that it gets, saves on the one it listens to.
APP = """
import os, signal, sys, time
said = os.open("said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def say(word):  # of a signal amid another word too
    os.write(said, f"{word}\\n".encode())
def saves(number, _frame):
    say(signal.Signals(number).name)
    if os.path.exists("deaf"):
        return
    time.sleep(0.2)
    with open("saved.new", "w") as file:
        file.write(str(time.time()))
    os.rename("saved.new", "saved")
    if leaves is not None:
        sys.exit(leaves)
def tells(number, _frame):
    say(signal.Signals(number).name)
    if number == signal.SIGTERM:
        sys.exit(7)
leaves = int(sys.argv[2]) if len(sys.argv) > 2 else None
for name in ("HUP", "INT", "QUIT", "USR1", "USR2", "TERM"):
    signal.signal(getattr(signal, "SIG" + name), saves if name == sys.argv[1] else tells)
say(f"ready {os.getpid()} {os.getpgrp()}")
while True:
    time.sleep(0.05)
"""


class Around:
    """One pal-run, in a directory of its own."""

    def __init__(self, home: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.home = home
        home.mkdir(exist_ok=True)
        bin_ = home.parent / "bin"
        bin_.mkdir(exist_ok=True)
        scontrol = bin_ / "scontrol"
        answer = f"[ ! -f {home.parent}/answer ] || . {home.parent}/answer"
        scontrol.write_text(f'#!/bin/sh\n{answer}\necho "$@" >>{home.parent}/asked\n')
        scontrol.chmod(0o755)
        path = f"{bin_}:{os.environ['PATH']}"
        self.program = subprocess.Popen(
            [sys.executable, "-m", "pal_slurm.probe.running", *words], cwd=home, text=True,
            env=environment({"PATH": path, "SLURM_JOB_ID": "12", **(env or {})}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def said(self) -> list[str]:
        path = self.home / "said"
        return path.read_text().splitlines() if path.exists() else []

    def asked(self) -> list[str]:
        path = self.home.parent / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def send(self, number: signal.Signals) -> None:
        self.program.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.program.communicate(timeout=30)
        return self.program.returncode, out, err


Make = Callable[..., Around]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Around] = []

    def around(*words: str, name: str = "job", env: Mapping[str, str] | None = None) -> Around:
        made.append(Around(tmp_path / name, *words, env=env))
        return made[-1]

    yield around
    for one in made:
        if one.program.poll() is None:
            os.killpg(one.program.pid, signal.SIGKILL)
        one.program.communicate()


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def app(make: Make, *options: str, listens: str = "USR1", code: str = "", **more: object) -> Around:
    words = [sys.executable, "-c", APP, listens, *([code] if code else [])]
    around = make(*options, "--", *words, **more)
    wait(lambda: around.said() != [], "the application is ready")
    return around


SAVED = ("--saved", "saved")


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "exit 255", "kill -KILL $$", "kill -USR2 $$", "kill -ABRT $$"])
def test_it_ends_as_its_command_ends(make: Make, script: str) -> None:
    plain = subprocess.run(["/bin/sh", "-c", script], check=False).returncode
    code, out, err = make(*SAVED, "--", "/bin/sh", "-c", script).end()
    assert (code, out, err) == (plain, "", "")


def test_what_goes_in_and_out_is_the_commands_own(make: Make) -> None:
    around = make(*SAVED, "--", "/bin/sh", "-c", 'cat; echo "$0 $1" >&2', "--saved", "a  b")
    out, err = around.program.communicate("line\n", timeout=20)
    assert (out, err, around.program.returncode) == ("line\n", "--saved a  b\n", 0)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--saved", "x", "--", "/no/such"], 127, "pal-run: /no/such: No such file"),
        (["--saved", "x", "--", str(ROOT)], 126, "Permission denied"),
        (["--", "true"], 2, "how is a save seen?"),
        (["--saved", "x"], 2, "no command"),
        (["--save", "x", "--tell", "TERM", "--", "true"], 2, "in one way"),
        (["--signal", "KILL", "--saved", "x", "--", "true"], 2, "invalid choice"),
        (["--tell", "KILL", "--saved", "x", "--", "true"], 2, "invalid choice"),
        (["--exits", "256", "--", "true"], 2, "no exit code from 0 to 255"),
        (["--saved", "x", "--grace", "nan", "--", "true"], 2, "no number from"),
    ],
)
def test_what_it_can_not_do_is_said_before_anything_runs(make: Make, words: list[str], code: int, says: str) -> None:
    got, out, err = make(*words).end()
    assert (got, out) == (code, "") and says in err


def test_every_signal_but_its_own_reaches_the_command_each_time(make: Make) -> None:
    around = app(make, *SAVED, "--save", "true")
    for number in (signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT) * 10:
        before = len(around.said())
        around.send(number)
        wait(lambda before=before: len(around.said()) > before, f"{number.name} has come")  # type: ignore[misc]
        assert around.said()[-1] == number.name
    around.send(signal.SIGTERM)
    assert around.end()[0] == 7
    assert around.said()[-1] == "SIGTERM" and around.asked() == []


def test_the_command_is_in_the_process_group_of_its_wrapper(make: Make) -> None:
    around = app(make, *SAVED)
    pid, group = map(int, around.said()[0].split()[1:])
    assert group == around.program.pid != pid


def test_on_the_signal_it_has_the_command_save_and_then_the_job_requeued_once(make: Make) -> None:
    around = app(make, *SAVED)
    around.send(signal.SIGUSR1)
    around.send(signal.SIGUSR1)  # amid the save: it asks for what is under way
    wait(lambda: around.asked() != [], "scontrol was asked")
    assert (around.home / "saved").exists() and around.program.poll() is None
    around.send(signal.SIGTERM)  # what Slurm does then
    code, _, err = around.end()
    assert code == 7 and "has Slurm requeue job 12" in err
    assert around.asked() == ["requeue incomplete 12"]
    assert around.said()[1:] == ["SIGUSR1", "SIGTERM"]


def test_another_signal_may_ask_and_another_may_be_told(make: Make) -> None:
    around = app(make, *SAVED, "--signal", "USR2", "--tell", "HUP", listens="HUP")
    around.send(signal.SIGUSR2)
    wait(lambda: around.asked() == ["requeue incomplete 12"], "scontrol was asked")
    assert around.said()[1:] == ["SIGHUP"]


def test_a_command_that_does_not_answer_goes_on_and_is_asked_again_at_the_next_signal(make: Make) -> None:
    around = make("--grace", "0.5", *SAVED, "--", sys.executable, "-c", APP, "USR1")
    (around.home / "deaf").touch()
    wait(lambda: around.said() != [], "the application is ready")
    around.send(signal.SIGUSR1)
    assert "no sign of a save within 0.5 s; it goes on" in _line(around)
    assert around.asked() == [] and around.program.poll() is None
    (around.home / "deaf").unlink()
    around.send(signal.SIGUSR1)
    wait(lambda: len(around.asked()) == 1, "scontrol was asked")


def _line(around: Around) -> str:
    assert around.program.stderr is not None
    return around.program.stderr.readline()


def test_a_command_that_does_not_listen_dies_of_its_own_signal_only(make: Make) -> None:
    deaf = ("--", "/bin/sh", "-c", "echo ready; exec sleep 60")
    told = make(*SAVED, *deaf, name="told")
    spared = make("--save", "touch $PAL_RUN_PID", *deaf, name="spared")
    for around in (told, spared):
        assert around.program.stdout is not None and around.program.stdout.readline() == "ready\n"
        os.killpg(around.program.pid, signal.SIGUSR1)  # as Slurm does: all processes get it
    assert told.end()[0] == -signal.SIGUSR1
    wait(lambda: len(spared.asked()) == 1, "the other one was saved")
    assert spared.program.poll() is None
    spared.send(signal.SIGTERM)
    assert spared.end()[0] == -signal.SIGTERM


def test_a_save_command_that_fails_requeues_nothing(make: Make) -> None:
    around = app(make, "--save", "exit 4")
    around.send(signal.SIGUSR1)
    assert "the save command ended with 4; it goes on" in _line(around)
    assert around.asked() == [] and around.said()[1:] == []


def test_a_command_that_saves_and_leaves_is_requeued_by_its_exit_code(make: Make) -> None:
    around = app(make, "--exits", "85", code="85")
    around.send(signal.SIGUSR1)
    wait(lambda: around.asked() != [], "scontrol was asked")
    assert around.program.poll() is None  # its end would be the job's, before Slurm has ended it
    around.send(signal.SIGTERM)
    assert around.end()[0] == 85


@pytest.mark.parametrize("code", ["0", "1"])
def test_any_other_end_is_the_jobs_own(make: Make, code: str) -> None:
    around = app(make, "--exits", "85", code=code)
    around.send(signal.SIGUSR1)
    got, _, err = around.end()
    assert got == int(code) and "ended instead of saving; its exit code is passed on" in err
    assert around.asked() == []


def test_a_job_that_slurm_does_not_requeue_goes_on(make: Make, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text("echo 'Requested operation is presently disabled' >&2; exit 1\n")
    around = app(make, *SAVED)
    around.send(signal.SIGUSR1)
    assert "has Slurm requeue job 12" in _line(around)
    assert "does not requeue job 12: Requested operation is presently disabled; it goes on" in _line(around)
    assert around.program.poll() is None
    (tmp_path / "answer").unlink()
    around.send(signal.SIGUSR1)
    wait(lambda: len(around.asked()) == 1, "it was asked again")


def test_without_a_job_it_saves_and_goes_on(make: Make) -> None:
    around = app(make, *SAVED, env={"SLURM_JOB_ID": ""})
    around.send(signal.SIGUSR1)
    assert "there is no job to requeue" in _line(around)
    assert around.program.poll() is None and around.asked() == []


def test_a_shell_script_may_trap_the_signal(make: Make) -> None:
    script = 'trap "echo trapped; touch saved" USR1; echo ready; while :; do sleep 0.05; done'
    around = make(*SAVED, "--", "/bin/bash", "-c", script)
    assert around.program.stdout is not None and around.program.stdout.readline() == "ready\n"
    around.send(signal.SIGUSR1)
    wait(lambda: len(around.asked()) == 1, "scontrol was asked")


def tasks_of_a_step(make: Make, tmp_path: Path, count: int) -> list[Around]:
    def env(rank: int) -> dict[str, str]:
        return {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": str(count), "SLURM_PROCID": str(rank)}

    options = ("--grace", "3", "--meet", str(tmp_path), *SAVED)
    return [app(make, *options, name=f"task{rank}", env=env(rank)) for rank in range(count)]


def test_the_tasks_of_a_step_requeue_once_when_the_last_has_saved(make: Make, tmp_path: Path) -> None:
    step = tasks_of_a_step(make, tmp_path, 3)
    (step[2].home / "deaf").touch()
    for task in step:
        task.send(signal.SIGUSR1)
    wait(lambda: all((task.home / "saved").exists() for task in step[:2]), "two have saved")
    assert step[0].asked() == []
    (step[2].home / "saved").write_text("now")
    wait(lambda: step[0].asked() != [], "scontrol was asked")
    for task in step:
        task.send(signal.SIGTERM)
        assert task.end()[0] == 7
    assert step[0].asked() == ["requeue incomplete 12"]
    assert list(tmp_path.glob(".pal-run*")) == []


def test_one_task_that_has_not_saved_keeps_all_running_until_they_are_asked_again(make: Make, tmp_path: Path) -> None:
    step = tasks_of_a_step(make, tmp_path, 2)
    (step[1].home / "deaf").touch()
    for task in step:
        task.send(signal.SIGUSR1)
    assert "task 1: no sign of a save within 3 s" in _line(step[1])
    assert "task 0: not all tasks of this step have saved; it goes on" in _line(step[0])
    assert step[0].asked() == [] and all(task.program.poll() is None for task in step)
    (step[1].home / "deaf").unlink()
    for task in step:
        task.send(signal.SIGUSR1)
    wait(lambda: len(step[0].asked()) == 1, "now scontrol was asked")


def test_the_job_is_named_as_scontrol_takes_it() -> None:
    assert job_of({"SLURM_JOB_ID": "12"}) == "12"
    assert job_of({"SLURM_JOB_ID": "16", "SLURM_ARRAY_JOB_ID": "16", "SLURM_ARRAY_TASK_ID": "3"}) == "16_3"
    assert job_of({"SLURM_JOB_ID": "21", "SLURM_HET_JOB_ID": "20"}) == "20"
    assert job_of({"SLURM_JOB_ID": "12; id"}) is None is job_of({})


def test_a_file_counts_when_it_is_new_and_no_longer_grows(tmp_path: Path) -> None:
    (tmp_path / "model-1.pt").write_text("old")
    evidence = Evidence(str(tmp_path / "model-*.pt"))
    assert not evidence.there() and not evidence.there()
    growing = tmp_path / "model-2.pt"
    growing.write_text("a")
    assert not evidence.there()
    growing.write_text("ab")
    assert not evidence.there()
    assert evidence.there()
    again = Evidence(str(tmp_path / "model-*.pt"))
    assert not again.there()
    growing.unlink()  # only the oldest is removed
    assert not again.there() and not again.there()
