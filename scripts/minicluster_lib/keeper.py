"""The keeper: the process that owns a cluster. Started by `up`, ended by `down`.

In: DIR/spec.json, DIR/facts.json, the sockets that hold its name and ports, and a link to the `up` that started it.
Out: one JSON line on the link, {"ready": timings} or {"error": sentence}; then it reaps, and serves DIR/run/control.
When `up` dies before the line is said, or anything fails, the keeper takes away all processes and files, then itself.
"""

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from . import daemons, pal
from .daemons import Daemon
from .errors import MiniclusterError
from .layout import Layout
from .ports import Ports
from .processes import Process, kill_world
from .spec import Spec
from .world import change_root, enter, leave

_STEP_SECONDS = 30.0


class Keeper:
    """Starts, restarts and ends the daemons of one cluster."""

    def __init__(self, layout: Layout, link: socket.socket) -> None:
        self.layout = layout
        self.link: socket.socket | None = link
        self.spec = Spec.from_json(layout.spec.read_text())
        facts = json.loads(layout.facts.read_text())
        self.ports = Ports(facts["base_port"])
        self.root = Path(facts["root"]) if facts["root"] else None
        self.mark: str = facts["mark"]
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.timings: dict[str, float] = {}
        self.stopping = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(link, selectors.EVENT_READ, self._link_broke)
        self.wake_read, self.wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.selector.register(self.wake_read, selectors.EVENT_READ, lambda: os.read(self.wake_read, 4096))
        signal.set_wakeup_fd(self.wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: setattr(self, "stopping", True))

    # --- life

    def run(self) -> None:
        try:
            way_back = enter(self.layout, self.mark)
        except MiniclusterError as error:
            self._say({"error": str(error)})
            return
        try:
            self._start_all()
            self._serve()
        except MiniclusterError as error:
            self._say({"error": str(error)})
        except Exception:
            self._say({"error": f"the keeper failed:\n{traceback.format_exc()}"})
        finally:
            left = kill_world(self.mark)
            self._reap()
            leave(way_back)
            if left:
                print(f"would not die: {left}", flush=True)
            shutil.rmtree(self.layout.dir, ignore_errors=True)

    def _start_all(self) -> None:
        begun = time.monotonic()
        if self.spec.dbd:
            self._spawn(daemons.mariadb(self.layout, self.ports.mariadb))
        if self.root:
            change_root(self.layout, self.root)
        me = Process.of(os.getpid())
        self.layout.keeper.write_text(f"{me}\n")
        pal.build(self.layout, self.spec, daemons.environment(self.layout))
        self._spawn(daemons.munged(self.layout))
        self._wait("munged", self.layout.munge_socket.exists)
        if self.spec.dbd:
            self._wait("mariadbd", lambda: daemons.listening(self.ports.mariadb))
            self._spawn(daemons.slurmdbd(self.layout))
            self._wait("slurmdbd", lambda: daemons.listening(self.ports.slurmdbd))
            self._mark_time("database", begun)
        self._spawn(daemons.slurmctld(self.layout, fresh=True))
        self._wait("slurmctld", lambda: daemons.listening(self.ports.slurmctld))
        self._mark_time("slurmctld", begun)
        for node in self.spec.node_names:
            self._spawn(daemons.slurmd(self.layout, node))
        self._wait_idle()
        if self.spec.dbd:
            self._add_users()
        self._mark_time("nodes", begun)
        self._listen()
        self._say({"ready": self.timings})

    def _serve(self) -> None:
        while not self.stopping:
            self._turn(None)

    def _turn(self, timeout: float | None) -> None:
        """One turn of the loop: sleep until something happens, reap, handle."""
        for key, _ in self.selector.select(timeout):
            key.data()
        self._reap()

    def _reap(self) -> None:
        """Collect every child that ended, our daemons and the orphans alike."""
        names = {pid: name for name, pid in self.pids.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in names:
                self.codes[names[pid]] = os.waitstatus_to_exitcode(status)
                del self.pids[names[pid]]
                self._write_pids()

    def _link_broke(self) -> None:
        """`up` never writes: readable means that it is gone."""
        self.stopping = True
        self._close_link()

    def _close_link(self) -> None:
        if self.link:
            self.selector.unregister(self.link)
            self.link.close()
            self.link = None

    def _say(self, message: dict[str, object]) -> None:
        print(json.dumps(message), flush=True)
        if self.link:
            try:
                self.link.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                self.stopping = True
            self._close_link()

    def _mark_time(self, what: str, begun: float) -> None:
        self.timings[what] = round(time.monotonic() - begun, 3)

    # --- daemons

    def _spawn(self, daemon: Daemon) -> None:
        """Start it in a session of its own; it dies with the keeper, even if the keeper is killed."""
        out = self.layout.log / f"{daemon.name}.out"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *daemon.argv]
        environment = daemons.environment(self.layout)
        self.codes.pop(daemon.name, None)
        self.pids[daemon.name] = os.posix_spawn(
            "/usr/bin/setpriv", argv, environment, file_actions=actions, setsid=True, setsigmask=[]
        )
        self._write_pids()

    def _write_pids(self) -> None:
        file = self.layout.run / "pids.json"
        scratch = file.with_suffix(".new")
        scratch.write_text(json.dumps(self.pids))
        scratch.replace(file)

    def _wait(self, name: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _STEP_SECONDS
        while not done():
            if self.stopping:
                raise MiniclusterError("interrupted")
            if name in self.codes:
                raise MiniclusterError(f"{name} ended with code {self.codes[name]}:\n{self._tail(name)}")
            if time.monotonic() > deadline:
                raise MiniclusterError(f"{name} was not ready in {_STEP_SECONDS:.0f} s:\n{self._tail(name)}")
            self._turn(0.01)

    def _wait_idle(self) -> None:
        deadline = time.monotonic() + _STEP_SECONDS + self.spec.nodes
        while True:
            for name in ("slurmctld", *self.spec.node_names):
                if name in self.codes:
                    raise MiniclusterError(f"{name} ended with code {self.codes[name]}:\n{self._tail(name)}")
            states = self._node_states()
            waiting = sorted(node for node in self.spec.node_names if states.get(node) != "idle")
            if not waiting:
                return
            if self.stopping:
                raise MiniclusterError("interrupted")
            if time.monotonic() > deadline:
                node = waiting[0]
                raise MiniclusterError(
                    f"{len(waiting)} nodes are not idle, {node} is {states.get(node, 'unknown')}:\n{self._tail(node)}"
                )
            until = time.monotonic() + 0.1
            while (left := until - time.monotonic()) > 0:
                self._turn(left)

    def _node_states(self) -> dict[str, str]:
        argv = ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t"]
        try:
            done = subprocess.run(
                argv, env=daemons.environment(self.layout), capture_output=True, text=True, timeout=10, check=False
            )
        except subprocess.TimeoutExpired:
            return {}
        return dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)

    def _add_users(self) -> None:
        """An account and users, so that fair share has something to share."""
        for words in (["account", "pal"], ["user", "root,nobody", "account=pal"]):
            argv = ["sacctmgr", "-i", "add", *words]
            done = subprocess.run(
                argv, env=daemons.environment(self.layout), capture_output=True, text=True, timeout=30, check=False
            )
            if done.returncode != 0:
                raise MiniclusterError(f"{' '.join(argv)} failed: {done.stdout}{done.stderr}")

    def _tail(self, name: str) -> str:
        logs = [self.layout.log / file for file in (f"{name}.out", f"{name}.log", f"slurmd.{name}.log")]
        lines: list[str] = []
        for log in logs:
            if log.exists():
                lines += log.read_text(errors="replace").splitlines()[-6:]
        return "\n".join(f"    {line}" for line in lines) or "    (it said nothing)"

    # --- control

    def _listen(self) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(self.layout.control))
        self.layout.control.chmod(0o600)
        server.listen(8)
        self.selector.register(server, selectors.EVENT_READ, lambda: self._answer(server))

    def _answer(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            try:
                request = json.loads(connection.makefile().readline())
                reply = self._obey(request["do"], request.get("daemon", ""))
            except (MiniclusterError, OSError, ValueError, KeyError, TypeError) as error:
                reply = {"error": str(error)}
            try:
                connection.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:
                return

    def _obey(self, order: str, name: str) -> dict[str, object]:
        if order == "down":
            self.stopping = True
            return {"ok": True}
        known = daemons.restartable(self.spec, self.layout)
        if name not in known:
            raise MiniclusterError(f"no daemon {name!r} here: there are {', '.join(known)}")
        if order in ("stop", "kill", "restart"):
            self._stop(name, signal.SIGKILL if order == "kill" else signal.SIGTERM)
        if order in ("start", "restart"):
            if name in self.pids:
                raise MiniclusterError(f"{name} runs already (pid {self.pids[name]})")
            self._spawn(known[name])
        if order not in ("stop", "kill", "restart", "start"):
            raise MiniclusterError(f"cannot {order!r}: choose start, stop, kill or restart")
        return {"ok": True, "pid": self.pids.get(name)}

    def _stop(self, name: str, number: signal.Signals) -> None:
        if name not in self.pids:
            return
        os.kill(self.pids[name], signal.SIGCONT)
        os.kill(self.pids[name], number)
        deadline = time.monotonic() + 10
        while name in self.pids and time.monotonic() < deadline:
            time.sleep(0.005)
            self._reap()
        if name in self.pids:
            os.kill(self.pids[name], signal.SIGKILL)


def main() -> None:
    """`python3 -m minicluster_lib.keeper DIR LINK_FD`; other inherited sockets are only held."""
    Keeper(Layout(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))).run()


if __name__ == "__main__":
    main()
