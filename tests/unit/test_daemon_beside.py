"""Work beside the cycle: whatever goes wrong in it is told, and the next time comes."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import pytest

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.errors import StoreError

TRACEBACK = ("forgetting: Traceback", "forgetting:   ", "forgetting: ValueError")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreError("the disk is full"), "forgetting: the disk is full"),
        (PermissionError(13, "Permission denied", "/spool"), "forgetting: [Errno 13] Permission denied: '/spool'"),
        (ValueError("a\x1b[31m"), "forgetting: a fault of ours, ValueError: a [31m (PLACE); nothing is half done"),
    ],
)
def test_no_error_goes_without_a_line_in_the_log(error: Exception, told: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise error

    beside, done = Beside("forgetting"), []
    beside.begin(fails)
    beside.wait()
    said = [re.sub(r"\(\w+\.py:\d+\)", "(PLACE)", record.message) for record in caplog.records]
    assert [line for line in said if not line.startswith(TRACEBACK)] == [told]
    assert "\x1b" not in caplog.text
    beside.begin(lambda: done.append(True))
    beside.wait()
    assert done == [True]


def test_it_is_busy_until_its_work_is_over() -> None:
    beside, go = Beside("learning"), threading.Event()

    def work() -> None:
        go.wait(30)

    beside.begin(work)
    assert beside.busy
    go.set()
    beside.wait()
    assert not beside.busy


LIMITED = """
import os, resource, sys
from pal_slurm.daemon.beside.thread import Beside
beside, done = Beside("learning"), []
if os.geteuid() == 0:
    os.setgroups([])
    os.setresuid(54321, 54321, 54321)
limit = resource.getrlimit(resource.RLIMIT_NPROC)
resource.setrlimit(resource.RLIMIT_NPROC, (0, limit[1]))
first = beside.begin(lambda: done.append(1))
busy = beside.busy
beside.wait()
resource.setrlimit(resource.RLIMIT_NPROC, limit)
second = beside.begin(lambda: done.append(2))
beside.wait()
print(first, busy, second, done)
"""


def test_a_thread_that_is_not_to_be_had_is_a_line_in_the_log_and_the_next_time_comes() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False False True [2]\n"
    assert done.stderr == "learning: put off: can't start new thread\n"
