"""The keeper: the process that owns a cluster. Started by `up`, ended by `down`.

In: DIR/spec.json, DIR/facts.json, the sockets that hold its name and ports, and a link to the `up` that started it.
Out: JSON lines on the link: {"say": sentence}, at last {"ready": timings} or {"error": sentence}; then it reaps, and
serves DIR/run/control.
When `up` dies before the last line is said, or anything fails, or the process of --until-gone ends, however it ends,
the keeper takes away all processes and files, then itself.
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

from . import backup, daemons, hollow, pal, pald
from .children import Children
from .control import Control
from .errors import MiniclusterError
from .layout import Layout
from .ports import Ports
from .processes import Process, kill_world
from .spec import Spec
from .world import Outside, change_root, enter

_STEP_SECONDS = 30.0
_HOLLOW_SECONDS = 600.0


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
        self.owner = Process.told(facts["owner"])
        self.children = Children(layout)
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
        outside = self.children.outside = Outside()
        try:
            self._watch_owner()
            enter(self.layout, self.mark)
        except MiniclusterError as error:
            self._say({"error": str(error)})
            shutil.rmtree(self.layout.dir, ignore_errors=True)
            return
        try:
            self._start_all()
            self._serve()
        except MiniclusterError as error:
            self._say({"error": str(error)})
        except Exception:
            self._say({"error": f"the keeper failed:\n{traceback.format_exc()}"})
        finally:
            self.children.end_beside()
            left = kill_world(self.mark)
            self.children.reap()
            outside.leave_to()
            if left:
                print(f"would not die: {left}", flush=True)
            shutil.rmtree(self.layout.dir, ignore_errors=True)

    def _start_all(self) -> None:
        begun = time.monotonic()
        if self.spec.dbd:
            self.children.spawn(daemons.mariadb(self.layout, self.ports.mariadb))
        if self.root:
            change_root(self.layout, self.root)
        me = Process.of(os.getpid())
        self.layout.keeper.write_text(f"{me}\n")
        pal.build(self.layout, self.spec, daemons.environment(self.layout))
        self.children.spawn(daemons.munged(self.layout))
        self._wait("munged", self.layout.munge_socket.exists)
        if self.spec.dbd:
            self._wait("mariadbd", lambda: daemons.listening(self.ports.mariadb))
            self.children.spawn(daemons.slurmdbd(self.layout))
            self._wait("slurmdbd", lambda: daemons.listening(self.ports.slurmdbd))
            self._mark_time("database", begun)
        self.children.spawn(daemons.slurmctld(self.spec, self.layout, fresh=True))
        self._wait("slurmctld", lambda: daemons.listening(self.ports.slurmctld))
        self._mark_time("slurmctld", begun)
        for node in self.spec.node_names:
            self.children.spawn(daemons.slurmd(self.layout, node))
        self._wait_idle()
        if self.spec.shards:
            self._start_anew()
        if self.spec.backup:  # one that stood by already would be asked to let go first
            self.children.spawn(backup.daemon(self.layout))
            self._wait(backup.HOST, lambda: backup.stands_by(self.layout))
        if self.spec.hollow:
            self._start_hollow()
        if self.spec.dbd:
            self._add_users()
        self._mark_time("nodes", begun)
        if self.spec.pald:
            self._start_pald()
            self._mark_time("pald", begun)
        Control(self.layout, self.spec, self.children).listen(self.selector)
        self._say({"ready": self.timings})

    def _serve(self) -> None:
        while not self.stopping:
            self._turn(None)

    def _turn(self, timeout: float | None) -> None:
        """One turn of the loop: sleep until something happens, reap, handle."""
        for key, _ in self.selector.select(timeout):
            key.data()
        self.children.reap()

    def _watch_owner(self) -> None:
        """A pidfd is readable once its process has ended; the start time tells it from a later one with its number."""
        if self.owner:
            try:
                handle = os.pidfd_open(self.owner.pid)
            except ProcessLookupError:
                handle = -1
            if handle < 0 or Process.of(self.owner.pid) != self.owner:
                raise MiniclusterError(f"process {self.owner.pid}, of --until-gone, is gone")
            self.selector.register(handle, selectors.EVENT_READ, lambda: self._owner_ended(handle))

    def _owner_ended(self, handle: int) -> None:
        self.stopping = True
        self.selector.unregister(handle)

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
            if "say" not in message:
                self._close_link()

    def _mark_time(self, what: str, begun: float) -> None:
        self.timings[what] = round(time.monotonic() - begun, 3)

    # --- daemons

    def _wait(self, name: str, done: Callable[[], bool], seconds: float = _STEP_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if self.stopping:
                raise MiniclusterError("interrupted")
            self.children.check(name)
            if time.monotonic() > deadline:
                raise MiniclusterError(f"{name} was not ready in {seconds:.0f} s:\n{self.children.tail(name)}")
            self._turn(0.01)

    def _wait_idle(self) -> None:
        deadline = time.monotonic() + _STEP_SECONDS + self.spec.nodes
        while True:
            for name in ("slurmctld", *self.spec.node_names):
                self.children.check(name)
            states = self._node_states()
            waiting = sorted(node for node in self.spec.node_names if states.get(node) != "idle")
            if not waiting:
                return
            if self.stopping:
                raise MiniclusterError("interrupted")
            if time.monotonic() > deadline:
                node = waiting[0]
                said = f"{node} is {states.get(node, 'unknown')}:\n{self.children.tail(node)}"
                raise MiniclusterError(f"{len(waiting)} nodes are not idle, {said}")
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

    def _start_anew(self) -> None:
        """Until slurmctld has begun with what the nodes told it, it gives out GPUs of which shards are in use."""
        self.children.stop("slurmctld", signal.SIGTERM)
        self.children.spawn(daemons.slurmctld(self.spec, self.layout))
        self._wait("slurmctld", lambda: daemons.listening(self.ports.slurmctld))
        self._wait_idle()

    def _start_hollow(self) -> None:
        self._say({"say": f"{self.spec.hollow} hollow nodes register, which takes a minute per 10,000"})
        self.children.spawn(hollow.daemon(self.layout, self.spec))
        self._wait(hollow.FIRST, lambda: self._node_states().get(hollow.FIRST) == "idle", _HOLLOW_SECONDS)
        hollow.go(self.layout).touch()
        since = time.monotonic()

        def stay_idle() -> bool:
            nonlocal since
            self._turn(0.5)
            idle = sum(state == "idle" for state in self._node_states().values())
            if idle < self.spec.nodes + self.spec.hollow:
                since = time.monotonic()
            return time.monotonic() - since >= hollow.QUIET_S

        self._wait(hollow.FIRST, stay_idle, _HOLLOW_SECONDS)
        hollow.go(self.layout).unlink()

    def _add_users(self) -> None:
        """An account and users, so that fair share has something to share."""
        for words in (["account", "pal"], ["user", ",".join(["root", "nobody", *self.spec.users]), "account=pal"]):
            argv = ["sacctmgr", "-i", "add", *words]
            done = subprocess.run(
                argv, env=daemons.environment(self.layout), capture_output=True, text=True, timeout=30, check=False
            )
            if done.returncode != 0:
                raise MiniclusterError(f"{' '.join(argv)} failed: {done.stdout}{done.stderr}")

    def _start_pald(self) -> None:
        """Taught first, by palctl as an admin would; then up to its first sign of life."""
        if told := pald.patience(self.spec):
            self._say({"say": told})
        for lesson in pald.lessons(self.spec, self.layout):
            self.children.spawn(lesson)
            self._wait(lesson.name, lambda: self.children.codes.get("palctl") == 0, pald.LESSON_SECONDS)
        self.children.spawn(pald.daemon(self.layout))
        self._wait("pald", lambda: pald.began(self.layout))
        if self.spec.page:
            self.children.spawn(pald.page(self.layout))
            self._wait("pal-page", lambda: daemons.listening(self.ports.page))


def main() -> None:
    """`python3 -m minicluster_lib.keeper DIR LINK_FD`; other inherited sockets are only held."""
    Keeper(Layout(Path(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))).run()


if __name__ == "__main__":
    main()
