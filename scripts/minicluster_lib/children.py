"""The processes that a keeper started: a `Daemon` in; its pid, and when it has ended its exit code. Orphans are reaped.

What belongs beside the cluster (`Daemon.beside`) sees this machine as it is outside, without the mark; it is known by
its process group instead. All die with the keeper, even if the keeper is killed.
"""

import json
import os
import signal
import time
from contextlib import suppress

from . import daemons
from .daemons import Daemon
from .errors import MiniclusterError
from .layout import Layout
from .world import Outside


class Children:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.outside: Outside | None = None
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self._beside: set[int] = set()

    def spawn(self, daemon: Daemon) -> None:
        """Start it in a session of its own."""
        out = daemon.log if daemon.beside else self.layout.log / f"{daemon.name}.out"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        outwards = self.outside.command() if daemon.beside and self.outside else []
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *outwards, *daemon.argv]
        environment = daemon.environment or daemons.environment(self.layout)
        self.codes.pop(daemon.name, None)
        pid = os.posix_spawn("/usr/bin/setpriv", argv, environment, file_actions=actions, setsid=True, setsigmask=[])
        self.pids[daemon.name] = pid
        if daemon.beside:
            self._beside.add(pid)
        self._write()

    def reap(self) -> None:
        """Collect every child that ended, our daemons and the orphans alike."""
        names = {pid: name for name, pid in self.pids.items()}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if ended is None:
                break
            self._end_group(ended.si_pid)  # before its number is anybody else's
            pid, status = os.waitpid(ended.si_pid, 0)
            if pid in names:
                self.codes[names[pid]] = os.waitstatus_to_exitcode(status)
                del self.pids[names[pid]]
                self._write()

    def stop(self, name: str, number: signal.Signals) -> None:
        """Signal it and wait for its end; SIGKILL when that takes too long."""
        for attempt in (number, signal.SIGKILL):
            if name not in self.pids:
                return
            os.kill(self.pids[name], signal.SIGCONT)
            os.kill(self.pids[name], attempt)
            deadline = time.monotonic() + 10
            while name in self.pids and time.monotonic() < deadline:
                time.sleep(0.005)
                self.reap()

    def check(self, name: str) -> None:
        """It must not have ended."""
        if name in self.codes:
            raise MiniclusterError(f"{name} ended with code {self.codes[name]}:\n{self.tail(name)}")

    def end_beside(self) -> None:
        """What no mark shows."""
        for pid in tuple(self._beside):
            self._end_group(pid)

    def tail(self, name: str) -> str:
        logs = [self.layout.log / file for file in (f"{name}.out", f"{name}.log", f"slurmd.{name}.log")]
        lines: list[str] = []
        for log in logs:
            if log.exists():
                lines += log.read_text(errors="replace").splitlines()[-6:]
        return "\n".join(f"    {line}" for line in lines) or "    (it said nothing)"

    def _end_group(self, pid: int) -> None:
        """A client that it called may be on its way into the cluster."""
        if pid in self._beside:
            self._beside.discard(pid)
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _write(self) -> None:
        file = self.layout.run / "pids.json"
        scratch = file.with_suffix(".new")
        scratch.write_text(json.dumps(self.pids))
        scratch.replace(file)
