"""The supervisor of the worker: every way in which a process can fail us ends in one sentence and a fresh start.

The workers here are small programs that speak the protocol, or break it; the supervisor under test is the real one.
"""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.pyslurm.process import WorkerProcess

PLENTY_S = 60.0  # a deadline that no test should meet
PRELUDE = """
import json, os, signal, sys, time
def send(**message):
    sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def requests():
    for line in sys.stdin:
        message = json.loads(line)
        if message["verb"] == "hello":
            send(id=message["id"], done={"pid": os.getpid()})
        else:
            yield message
"""
ECHO = """
for r in requests():
    for part in r["args"].get("parts", []):
        send(id=r["id"], part=part)
    send(id=r["id"], done=[r["verb"], r["args"].get("word")])
"""


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """Writes worker programs and starts supervisors of them."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "worker.py"
        self.made: list[WorkerProcess] = []

    def write(self, body: str) -> None:
        self.program.write_text(PRELUDE + textwrap.dedent(body))

    def worker(self, body: str, *, clock: Clock | None = None, start_deadline_s: float = PLENTY_S) -> WorkerProcess:
        self.write(body)
        command = [sys.executable, str(self.program)]
        if clock is None:
            self.made.append(WorkerProcess(command, start_deadline_s=start_deadline_s))
        else:
            self.made.append(WorkerProcess(command, start_deadline_s=start_deadline_s, clock=clock))
        return self.made[-1]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for worker in bench.made:
        worker.close()


def ask(worker: WorkerProcess, verb: str = "ping", deadline_s: float = PLENTY_S, **args: object) -> object:
    return msgspec.json.decode(worker.call(verb, args, deadline_s=deadline_s))


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_gone(pid: int) -> None:
    for _ in range(600):
        if gone(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


def test_parts_come_in_order_before_the_end_of_the_answer(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    seen: list[object] = []
    parts = list(range(100))
    done = worker.call(
        "walk", {"parts": parts}, deadline_s=PLENTY_S, on_part=lambda raw: seen.append(msgspec.json.decode(raw))
    )
    assert seen == parts
    assert msgspec.json.decode(done) == ["walk", None]


def test_one_process_serves_all_calls(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    assert ask(worker, word="a") == ["ping", "a"]
    assert ask(worker, word="b") == ["ping", "b"]
    assert worker.starts == 1


def test_a_request_larger_than_the_pipe_arrives_whole(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    word = "x" * 3_000_000
    assert ask(worker, word=word) == ["ping", word]


def test_a_worker_that_writes_much_to_stderr_is_not_stopped_by_it(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            for _ in range(40):
                sys.stderr.write("error: noise " * 4096 + "\\n")
            send(id=r["id"], done="well")
    """)
    assert ask(worker) == "well"
    assert worker.starts == 1


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    worker = WorkerProcess([str(tmp_path / "no-python")])
    with pytest.raises(SlurmUnavailable, match=r"could not be started: `.*no-python` can't be run: .*No such file"):
        ask(worker)


def test_an_exit_at_the_start_is_told_with_its_last_words(bench: Bench) -> None:
    worker = bench.worker("""
        sys.stderr.write("python: error: _parse_next_key: Parsing error at unrecognized key: Foo\\n")
        sys.stderr.write("python: fatal: Unable to process configuration file\\n")
        sys.exit(1)
    """)
    with pytest.raises(SlurmUnavailable) as caught:
        ask(worker)
    assert "could not be started: exited with status 1 during hello" in str(caught.value)
    assert "unrecognized key: Foo" in str(caught.value)
    assert "Unable to process configuration file" in str(caught.value)


def test_last_words_reach_no_terminal_as_escapes(bench: Bench) -> None:
    worker = bench.worker(r"""
        sys.stderr.buffer.write(b"fatal: \x1b[2Jgone \x07\xff\n")
        sys.exit(1)
    """)
    with pytest.raises(SlurmUnavailable) as caught:
        ask(worker)
    assert "gone" in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_worker_that_refuses_to_start_is_quoted(bench: Bench) -> None:
    worker = bench.worker("""
        for line in sys.stdin:
            send(id=json.loads(line)["id"], error={"kind": "start", "text": "pyslurm was built for Slurm 25.11.2"})
    """)
    with pytest.raises(SlurmUnavailable, match=r"could not be started: pyslurm was built for Slurm 25\.11\.2"):
        ask(worker)


def test_a_crash_in_a_call_names_its_signal_and_the_next_call_works(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            if r["verb"] == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            send(id=r["id"], done="well")
    """)
    with pytest.raises(SlurmUnavailable, match="was ended by SIGSEGV during crash"):
        ask(worker, "crash")
    assert ask(worker) == "well"
    assert worker.starts == 2


def test_killed_from_outside_in_the_middle_of_a_call(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            if r["verb"] == "hang":
                send(id=r["id"], part="half")
                time.sleep(1000)
            send(id=r["id"], done="well")
    """)
    half = threading.Event()

    def kill() -> None:
        half.wait()
        pid = worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(SlurmUnavailable, match="was ended by SIGKILL during hang"):
        worker.call("hang", deadline_s=PLENTY_S, on_part=lambda raw: half.set())
    killer.join()
    assert ask(worker) == "well"


def test_a_hung_worker_is_stopped_at_the_deadline_and_replaced(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            if r["verb"] == "hang":
                time.sleep(1000)
            send(id=r["id"], done="well")
    """)
    assert ask(worker) == "well"
    pid = worker.pid
    assert pid is not None
    with pytest.raises(SlurmUnavailable, match="gave no answer to hang in time"):
        ask(worker, "hang", deadline_s=0.2)
    wait_gone(pid)
    assert ask(worker) == "well"


def test_a_stopped_worker_is_replaced_too(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    assert ask(worker, word="a") == ["ping", "a"]
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SlurmUnavailable, match="in time"):
        ask(worker, word="b", deadline_s=0.2)
    wait_gone(pid)
    assert ask(worker, word="c") == ["ping", "c"]


def test_a_late_answer_is_never_taken_for_a_new_one(bench: Bench, tmp_path: Path) -> None:
    worker = bench.worker(f"""
        for r in requests():
            if r["verb"] == "slow":
                open({str(tmp_path / "began")!r}, "w").close()
                time.sleep(0.5)
            send(id=r["id"], done=r["args"]["word"])
    """)
    ask(worker, word="first")
    with pytest.raises(SlurmUnavailable):
        ask(worker, "slow", deadline_s=0.2, word="late")
    for word in ("a", "b", "c"):
        assert ask(worker, word=word) == word


def test_an_answer_to_another_request_ends_the_worker(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            send(id=r["id"] + (r["verb"] == "confuse"), done="well")
    """)
    with pytest.raises(SlurmUnavailable, match="the answer to another request"):
        ask(worker, "confuse")
    assert ask(worker) == "well"
    assert worker.starts == 2


@pytest.mark.parametrize("line", ["hello there", "[]", '{"id": "one"}', '{"id": 2, "done"', "\\x1b[31m", ""])
def test_what_is_no_answer_ends_the_worker(bench: Bench, line: str) -> None:
    worker = bench.worker(f"""
        for r in requests():
            if r["verb"] == "babble":
                sys.stdout.write("{line.replace('"', chr(92) + '"')}\\n"); sys.stdout.flush()
            else:
                send(id=r["id"], done="well")
    """)
    with pytest.raises(SlurmUnavailable, match="something that is no answer") as caught:
        ask(worker, "babble")
    assert str(caught.value).isprintable()
    assert ask(worker) == "well"


def test_a_reader_that_fails_on_a_part_leaves_no_stream_out_of_step(bench: Bench) -> None:
    worker = bench.worker(ECHO)

    def fail(raw: msgspec.Raw) -> None:
        raise SlurmUnavailable("that part is unreadable")

    with pytest.raises(SlurmUnavailable, match="unreadable"):
        worker.call("walk", {"parts": [1, 2, 3]}, deadline_s=PLENTY_S, on_part=fail)
    assert ask(worker, word="next") == ["ping", "next"]


def test_slurmctlds_refusal_keeps_the_worker_and_gives_advice(bench: Bench) -> None:
    worker = bench.worker("""
        for r in requests():
            send(id=r["id"], error={"kind": "slurm", "errno": 1800, "text": "Unable to contact slurm controller"})
    """)
    for _ in range(2):
        with pytest.raises(SlurmUnavailable, match=r"did not answer ping: Unable to contact.*is it running\?"):
            ask(worker)
    assert worker.starts == 1


def test_failing_starts_are_tried_at_growing_intervals(bench: Bench) -> None:
    clock = Clock()
    worker = bench.worker("sys.exit(3)", clock=clock)
    moments = []
    for _ in range(4000):
        before = worker.starts
        with pytest.raises(SlurmUnavailable, match="status 3"):
            ask(worker)
        if worker.starts > before:
            moments.append(clock.now)
        if len(moments) == 8:
            break
        clock.now += 0.25
    pauses = [round(b - a, 2) for a, b in pairwise(moments)]
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]


def test_a_refused_start_says_when_the_next_one_is(bench: Bench) -> None:
    clock = Clock()
    worker = bench.worker("sys.exit(3)", clock=clock)
    for _ in range(2):
        with pytest.raises(SlurmUnavailable):
            ask(worker)
    with pytest.raises(SlurmUnavailable, match=r"status 3.*\(it is started again in 0\.5 s\)"):
        ask(worker)
    assert worker.starts == 2


def test_once_the_cause_is_gone_the_next_start_works(bench: Bench) -> None:
    clock = Clock()
    worker = bench.worker("sys.exit(3)", clock=clock)
    for _ in range(3):
        with pytest.raises(SlurmUnavailable):
            ask(worker)
        clock.now += 5
    bench.write(ECHO)
    clock.now += 10
    assert ask(worker, word="back") == ["ping", "back"]


def test_what_a_command_prefix_started_dies_with_the_worker(bench: Bench, tmp_path: Path) -> None:
    bench.write("""
        for r in requests():
            time.sleep(1000)
    """)
    note = tmp_path / "helper.pid"
    script = f'sleep 1000 & echo $! > {note}; {sys.executable} "$0" <&0; true'
    worker = WorkerProcess(["sh", "-c", f"exec 3<&0; ({script}) <&3", str(bench.program)])
    with pytest.raises(SlurmUnavailable, match="in time"):
        ask(worker, deadline_s=1.0)
    wait_gone(int(note.read_text()))


def test_close_ends_the_process_and_a_later_call_starts_another(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    ask(worker, word="a")
    pid = worker.pid
    assert pid is not None
    worker.close()
    wait_gone(pid)
    assert worker.pid is None
    assert ask(worker, word="b") == ["ping", "b"]
    assert worker.starts == 2


def test_threads_take_turns(bench: Bench) -> None:
    worker = bench.worker(ECHO)
    ask(worker)
    answers: dict[int, object] = {}

    def call(number: int) -> None:
        answers[number] = [ask(worker, word=f"{number}.{i}") for i in range(20)]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: [["ping", f"{n}.{i}"] for i in range(20)] for n in range(4)}
