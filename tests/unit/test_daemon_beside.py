"""Work beside the cycle: whatever goes wrong in it is told, and the next time comes."""

from __future__ import annotations

import threading

import pytest

from pal_slurm.daemon.beside import Beside
from pal_slurm.errors import StoreError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StoreError("the disk is full"), "forgetting: the disk is full"),
        (PermissionError(13, "Permission denied", "/spool"), "forgetting: [Errno 13] Permission denied: '/spool'"),
        (ValueError("a fault"), "forgetting: a fault of ours; nothing is half done"),
    ],
)
def test_no_error_goes_without_a_line_in_the_log(error: Exception, told: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise error

    beside, done = Beside("forgetting"), []
    beside.begin(fails)
    beside.wait()
    assert [record.message for record in caplog.records] == [told]
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
