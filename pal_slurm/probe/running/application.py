"""The wrapped program. In: its words. Out: a child in our process group, that is told signals; its end, made ours.

It begins with the signals that it would have without us; only a signal that is meant for us alone is ignored in it,
as Slurm sends each to all processes of a step.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence

PASSED_ON = frozenset(
    getattr(signal, f"SIG{name}") for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "WINCH")
)
HEARD = PASSED_ON | {signal.SIGCHLD}


def start(
    words: Sequence[str],
    ignored: Collection[signal.Signals] = (),
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Raises OSError where there is no such program."""

    def before() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)

    return subprocess.Popen(words, preexec_fn=before, env=env, stdin=stdin, stderr=stderr)


def end_as(code: int) -> int:
    """As a program that ended so: by the same signal, or with the same code. No core dump of ours."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = signal.Signals(-code)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    return code if code >= 0 else 128 - code
