"""What users are told at pald's socket: their own jobs in full, of others how many are ahead; what they can cost."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pal_slurm.cli.asking import ask
from pal_slurm.config import Config
from pal_slurm.daemon.desk import DEADLINE_S
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.users.asking import MOST_ASKED, MOST_EACH, Asking
from pal_slurm.errors import BadInput
from pal_slurm.learning.telling import app_rows
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Decision,
    Hint,
    Intent,
    Job,
    Knowledge,
    Pin,
    Reason,
    homogeneous,
    neutral_scores,
)
from pal_slurm.report.answering import Answered, Asker, Question, UserAnswers
from pal_slurm.report.pace import BURST, CHEAP_S, MOST_KNOWN, AskPace
from pal_slurm.report.present import FORECAST, Present, StartNow, present_of
from pal_slurm.report.why import why_of
from pal_slurm.store import AppRepo, DecisionRepo, JobOutcome, Ledger, OutcomeRepo, Store
from tests.builders import NOW, leased, running, snapshot

CLUSTER = homogeneous(2, 4)
KNOWN = Knowledge(neutral_scores(CLUSTER), Apps({"resnet": App("resnet", "A")}))
ALICE, BOB, ROOT = Asker("alice"), Asker("bob"), Asker("root", everything=True)


def rows_of(store: Store) -> Callable[[], list[dict[str, Any]]]:
    return lambda: app_rows(store, Config())


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


JOBS = (
    running(1, {"n1": (0, 1)}, user="alice", hint=Hint("resnet"), start=NOW - 50),
    running(2, {"n2": (0, 1)}, user="bob", hint=Hint("bobs-secret"), start=NOW - 40),
    leased(3, 2, user="bob", hint=Hint("bobs-secret")),
    leased(4, 2, user="alice", hint=Hint("resnet")),
)


@pytest.fixture
def answers(sqlite_store: Store) -> UserAnswers:
    """alice and bob have a job that runs and one that waits each; pald wrote down what it does of such."""
    seen = snapshot(*JOBS, cluster=CLUSTER)
    decided = [Decision(j.id, None, Action.WAIT, Reason.BEHIND_HEAD, rank=n) for n, j in enumerate(seen.pending)]
    waits = zip(decided, seen.pending, strict=True)
    DecisionRepo(sqlite_store, "c").record(why_of(decision, job, seen, KNOWN, "pin") for decision, job in waits)
    for job in JOBS[:2]:
        app, start = job.hint.app, job.start or 0
        got = JobOutcome(job.id, job.submit, start, "A", job.nodes, job.gpus, app=app, user=job.user)
        OutcomeRepo(sqlite_store, "c").record([got])
        Ledger(sqlite_store, "c").write([Intent(0, job.submit, Pin(job.id, nodes=job.nodes, slots=(0, 1)), 1, NOW)])
    AppRepo(sqlite_store).set([App("resnet", "A"), App("site-app", "B")], "admin", NOW)
    AppRepo(sqlite_store).set([App("bobs-secret", "C")], "measured", NOW)
    present = present_of(seen, decided, KNOWN.apps, cluster="c", actuator="pin", policy="pal")
    starts = {job: StartNow(NOW + 100.0 * job, NOW + 60.0, NOW + 5000.0) for job in (3, 4)}
    present = msgspec.structs.replace(present, forecasts=starts, forecast_at=NOW - 9.0)
    return UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: present)


def why(answers: UserAnswers, job: str, asker: Asker) -> Answered:
    return answers.to(Question("why", job), asker)


def test_alice_is_told_all_of_her_own_jobs(answers: UserAnswers) -> None:
    runs, waits = why(answers, "1", ALICE), why(answers, "4", ALICE)
    assert any("pinned to n1:g0,g1" in line for line in runs.lines)
    assert any(line.startswith("It got n1:g0,g1; started") for line in runs.lines)
    assert "  Job 4 asks for 2 GPUs and runs resnet, class A." in waits.lines
    assert waits.lines[-2].startswith("Now: 1 job is ahead of it. It would fit, but would delay a job that is ahead")
    at = [time.strftime("%H:%M", time.localtime(NOW + after)) for after in (400, 60, 5000)]
    as_of = time.strftime("%H:%M:%S", time.localtime(NOW - 9))
    assert waits.lines[-1] == f"Expected start about {at[0]} ({at[1]} to {at[2]}), as of {as_of}."
    assert waits.records["decisions"]
    assert [waits.records[name] for name in FORECAST] == [NOW + 400, NOW + 60, NOW + 5000, NOW - 9]
    assert [runs.records[name] for name in FORECAST] == [None] * 4
    rows = {row["job"]: row for row in answers.to(Question("jobs"), ALICE).rows}
    assert rows[4]["expected_start"] == NOW + 400 and rows[1]["expected_start"] is None and rows.keys() == {1, 4}


def test_of_bob_s_jobs_alice_is_told_what_she_is_told_of_none(answers: UserAnswers) -> None:
    said = []
    for job in ("2", "3", "999"):
        with pytest.raises(BadInput) as refused:
            why(answers, job, ALICE)
        said.append(str(refused.value).replace(f"job {job} ", "job N "))
    assert len(set(said)) == 1
    assert "of others' jobs nothing is told but how many are ahead of yours" in said[0]
    everything = json.dumps([str(answers.to(Question(ask), ALICE)) for ask in ("jobs", "apps")])
    assert "bob" not in everything
    assert why(answers, "3", BOB).lines and why(answers, "2", ROOT).lines


def test_each_sees_his_own_rows_and_root_all(answers: UserAnswers) -> None:
    def jobs(asker: Asker) -> set[Any]:
        return {row["job"] for row in answers.to(Question("jobs"), asker).rows}

    def apps(asker: Asker) -> set[Any]:
        return {row["app"] for row in answers.to(Question("apps"), asker).rows}

    assert (jobs(ALICE), jobs(BOB), jobs(ROOT)) == ({1, 4}, {2, 3}, {1, 2, 3, 4})
    assert apps(ALICE) == {"resnet", "site-app"}
    assert apps(BOB) == apps(ROOT) == {"resnet", "site-app", "bobs-secret"}


@pytest.mark.parametrize("question", [Question("jobs"), Question("apps"), Question("why", "1"), Question("why", "7")])
def test_who_has_no_name_is_told_nothing(answers: UserAnswers, question: Question) -> None:
    """A UID that the host has no name for: access is denied, and a query without a user is a fault of ours."""
    with pytest.raises(BadInput, match="who you are"):
        answers.to(question, Asker(""))
    with pytest.raises(ValueError, match="without a user"):
        OutcomeRepo(answers.store, "c").newest_of("", 10)


@pytest.mark.parametrize(
    ("private", "ahead", "free"),
    [((), True, True), (("jobs",), False, True), (("nodes",), True, False), (("jobs", "nodes"), False, False),
     (None, False, True)],
)  # fmt: skip
def test_what_slurm_keeps_private_is_not_told(
    answers: UserAnswers, private: tuple[str, ...] | None, ahead: bool, free: bool
) -> None:
    """How many jobs of others are ahead, and how many GPUs are free; None: pald has not said yet what is private."""
    present = answers.present()
    assert present is not None
    seen = None if private is None else msgspec.structs.replace(present, private=private)
    asked = UserAnswers(answers.store, "c", answers.apps, lambda: seen)
    told = why(asked, "4", ALICE)
    text = "\n".join(told.lines)
    assert ("1 job came before it" in text) == ahead
    assert ("1 job is ahead of it." in text) == (ahead and seen is not None)
    assert ("GPUs were free in its partitions" in text) == free
    decisions: Any = told.records["decisions"]
    (decided,) = decisions
    assert (decided["ahead"], decided["decision"]["rank"]) == ((1, 1) if ahead else (None, 0))
    assert (decided["free_gpus"] is not None) == free
    assert "1 job came before it" in "".join(why(asked, "4", ROOT).lines)


def test_a_story_of_another_that_had_the_same_job_id_is_not_told(answers: UserAnswers, sqlite_store: Store) -> None:
    """Job ids come round again: alice's new job 2 has no story yet, and bob's old one is not hers."""
    new = leased(2, 1, user="alice")
    present = present_of(snapshot(new, cluster=CLUSTER), (), KNOWN.apps, cluster="c", actuator="pin", policy="pal")
    later = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: present)
    with pytest.raises(BadInput):
        why(later, "2", ALICE)


def test_a_job_of_which_nobody_wrote_whose_it_is_belongs_to_nobody(sqlite_store: Store) -> None:
    Ledger(sqlite_store, "c").write([Intent(0, 5, Pin(7, nodes=("n1",), slots=(0,)), 1, NOW)])
    answers = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: None)
    for asker in (ALICE, Asker("")):
        with pytest.raises(BadInput):
            why(answers, "7", asker)
    assert why(answers, "7", ROOT).lines


def test_a_job_that_pald_has_no_story_of_yet_is_told_from_the_queue(sqlite_store: Store) -> None:
    """The first 500 of those that wait have one; who is behind them is told where he stands."""
    jobs: list[Job] = [leased(n, 1, user="bob") for n in range(1, 900)] + [leased(900, 1, user="alice")]
    present = present_of(snapshot(*jobs, cluster=CLUSTER), (), KNOWN.apps, cluster="c", actuator="pin", policy="pal")
    answers = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: present)
    until = time.strftime("%H:%M:%S", time.localtime(NOW + 60))
    told = f"Now: 899 jobs are ahead of it. Should pald be gone, Slurm starts it after {until}."
    assert why(answers, "900", ALICE).lines == (told,)


@pytest.mark.usefixtures("in_tokyo")
def test_times_are_in_utc_for_who_asks_so_and_for_nobody_else(answers: UserAnswers) -> None:
    told = [answers.to(Question("why", "1", utc=utc), ALICE).lines for utc in (False, True, False)]
    hours = [time.strftime("%Y-%m-%d %H:%M:%S", to(NOW)) for to in (time.localtime, time.gmtime, time.localtime)]
    assert all(hour in "".join(lines) for hour, lines in zip(hours, told, strict=True))
    assert hours[0] not in "".join(told[1]) and told[0] == told[2]


@pytest.mark.parametrize("reason", [Reason.HELD, Reason.NOT_ELIGIBLE, Reason.NO_ROOM])
def test_what_waits_for_more_than_pald_is_not_said_to_start_without_it(sqlite_store: Store, reason: Reason) -> None:
    job = leased(4, 1, user="alice")
    decided = [Decision(4, None, Action.WAIT, reason)]
    present = present_of(snapshot(job, cluster=CLUSTER), decided, KNOWN.apps, cluster="c", actuator="pin", policy="pal")
    answers = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: present)
    assert ("Slurm starts it after" in why(answers, "4", ALICE).lines[-1]) == (reason is Reason.NO_ROOM)


@pytest.mark.parametrize("job", ["", "x", "1;2", "1_", "_1", "-1", "1" * 11, "１", "1\n2", "../1"])
def test_what_is_no_job_is_refused(answers: UserAnswers, job: str) -> None:
    with pytest.raises(BadInput, match="is no job id"):
        why(answers, job, ALICE)


def test_a_user_has_a_burst_and_then_his_rate_and_others_theirs() -> None:
    pace = AskPace(60)
    assert [pace.may(1, 100.0) for _ in range(BURST + 3)] == [True] * BURST + [False] * 3
    assert pace.may(2, 100.0)
    assert pace.may(1, 101.1)
    assert not pace.may(1, 101.2)


def test_a_question_that_takes_long_counts_as_several() -> None:
    """120 questions a minute of 0.3 s each would be half a core; nobody has more than 4 % of one for long."""
    pace, spent, asked = AskPace(120), 0.0, 0
    for tenth in range(6_000):
        if pace.may(1, tenth / 10):
            pace.cost(1, 0.3)
            spent, asked = spent + 0.3, asked + 1
    assert spent < 0.04 * 600 + BURST * CHEAP_S + 0.3 and asked > 60
    assert pace.may(2, 600.0) and [pace.may(2, 600.0) for _ in range(BURST)].count(True) == BURST - 1
    pace.cost(2, 1e9)
    assert pace.may(2, 665.0)  # a minute later at the latest


def test_an_array_of_thousands_of_tasks_is_told_of_its_newest_ones_only(sqlite_store: Store) -> None:
    """One question about it took 0.3 s of pald's own time, and its answer was too long to send."""
    tasks = 3_000
    array = leased(1, 1, user="alice", array_tasks=tuple(range(tasks)), array_id=1)
    got = [
        JobOutcome(5_000 + n, array.submit, NOW - tasks + n, "A", ("n1",), ((0,),), task=n, array_id=1, user="alice")
        for n in range(tasks)
    ]
    OutcomeRepo(sqlite_store, "c").record(got)
    pins = [Intent(0, array.submit, Pin(1, n, nodes=("n1",), slots=(0,)), 1, NOW) for n in range(tasks)]
    Ledger(sqlite_store, "c").write(pins)
    answers = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), lambda: None)
    whole, one, own = (why(answers, job, ALICE) for job in ("1", "1_7", "5007"))
    assert len(json.dumps(msgspec.to_builtins(whole.records))) < 400_000
    assert any("the last 12 of 200 or more edits" in line for line in whole.lines)
    assert any("and 188 or more starts of its tasks" in line for line in whole.lines)
    assert whole.lines[-1].startswith(f"Task {tasks - 1}: It got")
    assert one.lines == own.lines and sum("pinned to" in line for line in one.lines) == 1
    assert any(line.startswith("Task 7: It got") for line in one.lines)
    with pytest.raises(BadInput):
        why(answers, "1_7", BOB)


def test_who_asked_is_not_remembered_without_end() -> None:
    pace = AskPace(60)
    for user in range(MOST_KNOWN + 500):
        pace.may(user, 100.0)
    assert len(pace._tokens) == MOST_KNOWN


# --- the socket itself


@contextlib.contextmanager
def asking(answers: UserAnswers, path: Path, per_minute: int = 6000) -> Iterator[Asking]:
    desk = Asking(path, answers, per_minute, Faults())
    with contextlib.closing(desk):
        desk.keep_serving()
        wait_for(lambda: listens(path), "it listens")
        yield desk


def call(path: Path) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(30)
    try:
        channel.connect(str(path))
    except OSError:
        channel.close()
        raise
    return channel


def listens(path: Path) -> bool:
    with contextlib.suppress(OSError):
        call(path).close()
        return True
    return False


def said(path: Path, question: bytes) -> Any:
    with call(path) as channel:
        channel.sendall(question)
        return json.loads(b"".join(iter(lambda: channel.recv(65536), b"")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "users.sock"


def test_the_kernel_says_who_asks(answers: UserAnswers, path: Path) -> None:
    with asking(answers, path):
        me = pwd.getpwuid(os.geteuid()).pw_name
        assert said(path, b'{"ask": "why", "job": "2"}\n')["lines"], f"{me} is who pald runs as"
        assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_a_stranger_with_palctl_is_told_nothing_of_others(answers: UserAnswers, public_path: Path) -> None:
    """The program itself, as a user who may not read pal.yaml."""
    nobody, path = pwd.getpwnam("nobody"), public_path / "users.sock"
    program = Path(sys.executable).with_name("palctl")
    with asking(answers, path):
        for words, code, told in (
            (("why", "1"), 65, "no job 1 of yours is known"), (("jobs",), 0, "no GPU job of yours is known"),
            (("apps",), 0, "site-app"), (("jobs", "--json"), 0, "[]"), (("scores",), 78, "this is for admins"),
        ):  # fmt: skip
            done = subprocess.run(
                ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", program, *words],
                capture_output=True, text=True, check=False, timeout=60, cwd="/",
                env={"PAL_SOCKET": str(path), "PAL_CONFIG": "/nowhere/pal.yaml", "PATH": os.environ["PATH"]},
            )  # fmt: skip
            assert (done.returncode, told in done.stdout + done.stderr) == (code, True), done
            assert "alice" not in done.stdout and "bobs-secret" not in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_a_uid_without_a_name_is_told_nothing_of_others(answers: UserAnswers, public_path: Path) -> None:
    uid, path = 54_321, public_path / "users.sock"
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    ask_it = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode())"
    )
    with asking(answers, path):
        for question in ('{"ask": "jobs"}', '{"ask": "apps"}', '{"ask": "why", "job": "2"}'):
            done = subprocess.run(
                ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c",
                 f"{ask_it}; print(s.makefile().read())", str(path), f"{question}\n"],
                capture_output=True, text=True, check=True, timeout=60, cwd="/",
            )  # fmt: skip
            assert set(json.loads(done.stdout)) == {"error"}, done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
@pytest.mark.skipif(Path("/etc/pal-slurm/pal.yaml").exists(), reason="pal-slurm is installed here")
def test_where_no_pald_is_a_stranger_is_told_whom_to_ask_and_not_how_to_install() -> None:
    nobody, program = pwd.getpwnam("nobody"), Path(sys.executable).with_name("palctl")
    for words, code, told in (
        (("why", "1"), 75, "Does it run on another host? Then ask there, or through its page"),
        (("jobs",), 75, "pald can't be asked at /run/pal-slurm/users.sock: No such file or directory"),
        (("status",), 78, "this is for admins"),
    ):
        done = subprocess.run(
            ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", program, *words],
            capture_output=True, text=True, check=False, timeout=60, cwd="/", env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert (done.returncode, told in done.stderr) == (code, True), done


FLOOD = """
import collections, socket, sys
held = collections.deque()
print("begun", flush=True)
while True:
    channel = socket.socket(socket.AF_UNIX)
    channel.setblocking(False)
    try:
        channel.connect(sys.argv[1])
        channel.send(b'{"ask": "jobs"}\\n')
    except OSError:
        channel.close()
    else:
        held.append(channel)
    if len(held) > 500:
        held.popleft().close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_a_user_who_connects_without_end_keeps_nobody_from_being_answered(
    answers: UserAnswers, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who wait to be let in are his, all of them, all the time."""
    nobody, path = pwd.getpwnam("nobody"), public_path / "users.sock"
    monkeypatch.setenv("PAL_SOCKET", str(path))
    with asking(answers, path):
        flood = subprocess.Popen(
            ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", sys.executable, "-c",
             FLOOD, str(path)], stdout=subprocess.PIPE, cwd="/",
        )  # fmt: skip
        try:
            assert flood.stdout is not None and flood.stdout.readline() == b"begun\n"
            for _ in range(5):
                assert len(ask({"ask": "jobs"}).rows) == 4
            assert flood.poll() is None
        finally:
            flood.kill()
            flood.communicate()


@pytest.mark.parametrize(
    "question",
    [
        b"\n", b"why 1\n", b"{}\n", b'{"ask": "why"}\n', b'{"ask": "sudo"}\n', b'{"ask": "why", "job": 1}\n',
        b"\xff\xfe\n", b'{"ask": "why", "job": "1", "user": "alice"}\n', b'["why", "1"]\n', b"[" * 900 + b"\n",
        b"x" * MOST_ASKED, b'{"ask": "jobs", "most": 1e99}\n', b"GET / HTTP/1.1\r\n\r\n",
    ],
)  # fmt: skip
def test_bad_questions_have_an_answer_that_says_so(answers: UserAnswers, path: Path, question: bytes) -> None:
    with asking(answers, path) as desk:
        assert said(path, question)["error"]
        assert said(path, b'{"ask": "jobs"}\n')["rows"]
        assert not desk.trouble


def test_who_asks_without_end_is_told_to_wait(answers: UserAnswers, path: Path) -> None:
    with asking(answers, path, per_minute=1):
        told = [said(path, b'{"ask": "why", "job": "x"}\n')["error"] for _ in range(BURST + 2)]
        assert ["is no job id" in one for one in told] == [True] * BURST + [False] * 2
        assert "try again in a minute" in told[-1]


def test_silent_connections_of_one_user_are_few_and_end(
    answers: UserAnswers, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pal_slurm.daemon.desk.DEADLINE_S", DEADLINE_S / 5)
    with asking(answers, path), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(call(path)) for _ in range(20)]
        assert said(path, b'{"ask": "jobs"}\n')["rows"]

        def open_ones() -> int:
            return sum(_is_open(channel) for channel in silent)

        wait_for(lambda: open_ones() <= MOST_EACH, "all but a few have made way")
        wait_for(lambda: open_ones() == 0, "and those end too")


def _is_open(channel: socket.socket) -> bool:
    channel.setblocking(False)
    try:
        return channel.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_who_does_not_read_the_answer_holds_up_nobody(answers: UserAnswers, path: Path) -> None:
    with asking(answers, path), call(path) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        deaf.sendall(b'{"ask": "jobs"}\n')
        assert said(path, b'{"ask": "jobs"}\n')["rows"]
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_database_that_is_away_is_a_sentence(answers: UserAnswers, path: Path, sqlite_store: Store) -> None:
    assert sqlite_store.path is not None
    with asking(answers, path):
        moved = sqlite_store.path.with_name("elsewhere")
        sqlite_store.path.rename(moved)
        assert "was removed" in said(path, b'{"ask": "why", "job": "1"}\n')["error"]
        moved.rename(sqlite_store.path)
        assert said(path, b'{"ask": "why", "job": "1"}\n')["lines"]


def test_no_present_is_no_fault(sqlite_store: Store) -> None:
    nothing: Callable[[], Present | None] = lambda: None  # noqa: E731
    answers = UserAnswers(sqlite_store, "c", rows_of(sqlite_store), nothing)
    assert answers.to(Question("jobs"), ALICE) == Answered()
    assert answers.to(Question("apps"), ALICE) == Answered()
