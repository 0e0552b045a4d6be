"""The pipes to one worker process. In: requests with deadlines. Out: its answers, or why it is of no more use.

Nothing here waits without a deadline: the pipes are non-blocking, and stderr is drained beside stdout, so that a
chatty libslurm can't stop the worker either.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pal_slurm.errors import SlurmUnavailable

LONGEST_LINE = 256 * 1024 * 1024
LAST_WORDS = 4096
# Slurm's own errno, and what to do about it.
ADVICE = {
    1007: "munge refused us there, or it speaks another version of Slurm's protocol: scripts/build-pyslurm",
    1008: "it speaks another version of Slurm's protocol; run scripts/build-pyslurm for this Slurm",
    5005: "it speaks another version of Slurm's protocol; run scripts/build-pyslurm for this Slurm",
    1800: "slurmctld can't be reached; is it running?",
    5004: "slurmctld took the connection and gave no answer; is it stuck or very busy?",
}


class Lost(Exception):
    """The worker is of no more use; the text says why, after the words `the pyslurm worker`."""


class Declined(SlurmUnavailable):
    """The worker itself said that it can't; it is well, and in step."""


class _Error(msgspec.Struct):
    kind: str
    text: str
    errno: int | None = None


class _Message(msgspec.Struct):
    id: int
    part: msgspec.Raw = msgspec.Raw()
    done: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


class Child:
    """One process and its three pipes."""

    def __init__(self, command: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a group of its own: killed with whatever its command prefix started
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.pid = self._process.pid
        self.timed_out = False
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._err = self._process.stderr.fileno()
        self._received = bytearray()
        self._searched = 0
        self._words = b""
        self._id = 0
        self._selector = selectors.DefaultSelector()
        for number in (self._in, self._out, self._err):
            fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_NONBLOCK)
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)

    def ask(
        self, verb: str, args: Mapping[str, object], end: float, on_part: Callable[[msgspec.Raw], None]
    ) -> msgspec.Raw:
        self._id += 1
        self._pump(msgspec.json.encode({"id": self._id, "verb": verb, "args": args}) + b"\n", verb, end)
        while True:
            message = self._message(self._line(verb, end), verb)
            if message.error is not None:
                raise _declined(message.error, verb)
            if message.done:
                return message.done
            on_part(message.part)

    def end(self, patience_s: float = 0.0) -> None:
        """Ends the process: by hanging up, and by SIGKILL after that long."""
        self._selector.close()
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            if patience_s:
                self._process.wait(patience_s)
        if self._process.poll() is None:
            # A prefix that changed the user (sudo) can't be killed; without its stdin it ends by itself.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2.0)
        self._process.stdout.close()
        self._process.stderr.close()

    def _message(self, line: bytes, verb: str) -> _Message:
        try:
            message = _decoder.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise Lost(f"answered {verb} with something that is no answer: {_printable(line[:80])}") from error
        if message.id != self._id:
            raise Lost(f"answered {verb} with the answer to another request")
        return message

    def _line(self, verb: str, end: float) -> bytes:
        while True:
            place = self._received.find(b"\n", self._searched)
            if place >= 0:
                line = bytes(self._received[:place])
                del self._received[: place + 1]
                self._searched = 0
                return line
            self._searched = len(self._received)
            if self._searched > LONGEST_LINE:
                raise Lost(f"answered {verb} with a line without end")
            self._pump(b"", verb, end)

    def _pump(self, request: bytes, verb: str, end: float) -> None:
        """Writes all of `request`, or reads something when there is none."""
        if request:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        try:
            while True:
                left = end - self._clock()
                ready = {key.fd for key, _ in self._selector.select(left)} if left > 0 else set()
                if not ready and end - self._clock() <= 0:
                    self.timed_out = True
                    raise Lost(
                        f"gave no answer to {verb} in time and was stopped; slurmctld may be stuck or very busy"
                        + self._last_words()
                    )
                if self._err in ready:
                    self._listen()
                if self._in in ready:
                    request = request[self._write(request, verb) :]
                    if not request:
                        return
                if self._out in ready:
                    self._read(verb)
                    if not request:
                        return
        finally:
            if self._in in self._selector.get_map():
                self._selector.unregister(self._in)

    def _write(self, request: bytes, verb: str) -> int:
        try:
            return os.write(self._in, request)
        except BlockingIOError:
            return 0
        except BrokenPipeError as error:
            raise self._death(verb) from error

    def _read(self, verb: str) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._out, 1 << 20)
            if not data:
                raise self._death(verb)
            self._received += data

    def _listen(self) -> bool:
        """Takes in what stands on stderr; False at its end."""
        try:
            words = os.read(self._err, 1 << 16)
        except BlockingIOError:
            return False
        if not words and self._err in self._selector.get_map():
            self._selector.unregister(self._err)
        self._words = (self._words + words)[-LAST_WORDS:]
        return bool(words)

    def _death(self, verb: str) -> Lost:
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return Lost(f"hung up during {verb} without ending" + self._last_words())
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
        return Lost(f"{how} during {verb}" + self._last_words())

    def _last_words(self) -> str:
        while self._listen():
            pass
        lines = [_printable(line) for line in self._words.splitlines() if line.strip()]
        telling = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()] or lines
        return f"; it said: {' | '.join(telling[-3:])}" if telling else ""


_decoder = msgspec.json.Decoder(_Message)


def _printable(text: bytes) -> str:
    """Words of another program, safe for a terminal and a log line."""
    return "".join(char if char.isprintable() else "?" for char in text.decode("utf-8", "replace")).strip()[:300]


def _declined(error: _Error, verb: str) -> Declined:
    if error.kind == "slurm":
        advice = ADVICE.get(error.errno or 0)
        return Declined(f"slurmctld did not answer {verb}: {error.text}" + (f"; {advice}" if advice else ""))
    return Declined(error.text if error.kind == "start" else f"the pyslurm worker failed at {error.text}")
