"""scontrol is told no more than it is about to do: when our time is over, or we are, so is it (P6)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from pal_slurm.model import Job, JobState, Renew
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.write import EACH_S, MOST_AHEAD, Talk, send
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.edits.rewrite import Rewrite
from pal_slurm.slurm.port import unbounded
from pal_slurm.slurm.pyslurm.worker import serve

SCONTROL = """#!{python}
import sys, time
for number, line in enumerate(sys.stdin):
    if line.startswith("update"):
        with open({log!r}, "a") as log:
            log.write(line)
        {update}
    else:
        sys.stderr.write("invalid keyword: " + line)
"""
Make = Callable[[str], Commands]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def scontrol(tmp_path: Path, log: Path) -> Make:
    """What it does with an update, beside writing it down."""

    def make(update: str) -> Commands:
        path = tmp_path / "scontrol"
        path.write_text(SCONTROL.format(python=sys.executable, log=str(log), update=update))
        path.chmod(0o755)
        return Commands(tmp_path, deadline_s=20.0)

    return make


def ready(jobs: int) -> list[Ready]:
    edits = [Renew(number, until=1_900_000_000) for number in range(1, jobs + 1)]
    return [Ready(edit, Job(edit.job, JobState.PENDING, 0, "u"), Rewrite(begin=edit.until), ()) for edit in edits]


def written(log: Path) -> list[int]:
    return [int(line.partition("JobId=")[2].split()[0]) for line in log.read_text().splitlines()]


def test_all_are_told_in_order_and_each_has_its_own_words(scontrol: Make, log: Path) -> None:
    heard = send(scontrol("number % 3 or sys.stderr.write('no\\n')"), ready(200))
    assert written(log) == list(range(1, 201))
    assert all(h.sent and h.answered for h in heard)
    assert {h.said for h in heard} == {"", "no"}


def test_when_the_time_is_over_nothing_more_is_told_and_what_was_is_heard_to_its_end(scontrol: Make, log: Path) -> None:
    asked = count()
    heard = send(scontrol("time.sleep(0.002)"), ready(300), lambda: 60.0 if next(asked) < 100 else 0.0)
    told = [h for h in heard if h.sent]
    assert 0 < len(told) < 300
    assert written(log) == list(range(1, len(told) + 1))
    assert all(h.answered for h in told) and not any(h.sent for h in heard[len(told) :])


def test_one_that_hangs_is_ended_with_our_time_and_had_not_heard_of_the_rest(scontrol: Make, log: Path) -> None:
    end = time.monotonic() + 1.0
    heard = send(scontrol("number > 30 and time.sleep(600)"), ready(500), lambda: end - time.monotonic())
    told = [h for h in heard if h.sent]
    in_doubt = [h for h in told if not h.answered]
    assert len(written(log)) == 16
    assert 1 <= len(in_doubt) <= 1 + MOST_AHEAD and len(told) == 15 + len(in_doubt)


def test_nothing_is_begun_without_time(scontrol: Make, log: Path) -> None:
    heard = send(scontrol("pass"), ready(3), lambda: 0.0)
    assert not log.exists() and not any(h.sent for h in heard)


def test_pyslurms_worker_begins_no_update_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon may be held up, and can't stop it then."""
    now, made = [50.0], []
    parts: list[dict[str, object]] = []

    class Job:
        @staticmethod
        def update_fields(target: str, *fields: object) -> None:
            made.append(target)
            now[0] += 1.0

    link, pyslurm = (
        SimpleNamespace(part=parts.append, done=lambda told: None),
        SimpleNamespace(Job=Job, RPCError=OSError),
    )
    monkeypatch.setattr(serve, "_since_boot", lambda: now[0])
    updates = [{"target": str(n), "begin": 1, "texts": {}, "numbers": {}} for n in range(9)]
    server = serve.Server(link, pyslurm, "26.05", "")  # type: ignore[arg-type]
    server.answer("apply", {"updates": updates, "within_s": 3.5})
    assert made == ["0", "1", "2", "3"] and [part.get("sent", True) for part in parts] == [True] * 4 + [False] * 5
    server.answer("apply", {"updates": updates})
    assert len(made) == 13


@pytest.mark.parametrize(("each_s", "ahead"), [(0.002, MOST_AHEAD), (0.02, 5), (0.5, 1)])
def test_it_is_as_far_ahead_of_a_slow_slurmctld_as_a_tenth_of_a_second(each_s: float, ahead: int) -> None:
    now = [100.0]
    talk = Talk([f"update {number}" for number in range(200)], unbounded, clock=lambda: now[0])
    err, most = bytearray(), 0
    talk(err)
    assert talk.told == int(0.1 / EACH_S)
    while talk.begun < talk.told:
        err += f"invalid keyword: {talk.nonce}{talk.begun}\n".encode()
        talk(err)
        if talk.begun > 20:
            most = max(most, talk.told - talk.begun)
        now[0] += each_s
    assert talk.told == 200 and most == ahead
