"""Runs Slurm's client commands. In: a command and its deadline. Out: its bytes, or one sentence why there are none.

No shell, no inherited SQUEUE_ or SLURM_ settings (a site's SQUEUE_FORMAT must not change our columns), times as epoch
seconds, a process group of its own that is killed at the deadline, and a cap on what is read.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.words import printable

MOST_BYTES = 1 << 30  # a queue of 300,000 jobs; more is a runaway
_CHUNK = 1 << 16
Sink = Callable[[bytes], None] | None  # gets what a command prints as it comes; None: the answer holds it
# What a command is told next, by all that it has said on stderr; b"": nothing before it says more; None: that was all.
Speech = Callable[[bytearray], bytes | None]
_KEPT = ("SLURM_CONF", "SLURM_JWT")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: bytes
    err: bytes
    timed_out: bool = False


def failure(name: str, answer: Answer) -> SlurmUnavailable:
    """Why a command failed, in its own words."""
    said = printable(answer.err) or f"exit status {answer.code}"
    # What 22.05's commands say to a 26.05 slurmctld, and the other way round.
    other = any(word in said for word in ("Insane message length", "rotocol", "version"))
    hint = "; are Slurm's commands here of another version than slurmctld?" if other else ""
    return SlurmUnavailable(f"{name} failed: {said}{hint}")


class Commands:
    """Slurm's commands in one directory, or on PATH."""

    def __init__(self, bin_dir: Path | None = None, deadline_s: float = 15.0) -> None:
        self.bin_dir = bin_dir
        self.deadline_s = deadline_s
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN) or key in _KEPT}
        self._env = inherited | {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}

    def run(
        self,
        name: str,
        args: Sequence[str],
        stdin: bytes | Speech = b"",
        deadline_s: float | None = None,
        sink: Sink = None,
    ) -> Answer:
        """The command's answer, whatever its exit status; an error when it can't be started or says too much.

        `sink`: gets what it prints as it comes; the answer then holds none of it.
        """
        path = str(self.bin_dir / name) if self.bin_dir else name
        try:
            child = subprocess.Popen(
                [path, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self._env, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise SlurmUnavailable(
                f"can't run {path}: {error.strerror}; set cluster.bin_dir in pal.yaml to where Slurm's commands are"
            ) from error
        try:
            with child:
                try:
                    speech = _told_whole(stdin) if isinstance(stdin, bytes) else stdin
                    return _talk(child, speech, deadline_s or self.deadline_s, sink)
                finally:
                    _end(child)
        except _TooMuch:
            raise SlurmUnavailable(f"{name} answered with more than {MOST_BYTES >> 20} MB; nothing was used") from None

    def ask(
        self,
        name: str,
        args: Sequence[str],
        stdin: bytes = b"",
        deadline_s: float | None = None,
        sink: Sink = None,
    ) -> Answer:
        """As `run`, and a deadline that passed is an error."""
        answer = self.run(name, args, stdin, deadline_s, sink)
        if answer.timed_out:
            said = printable(answer.err)
            raise SlurmUnavailable(
                f"{name} gave no answer within {deadline_s or self.deadline_s:g} s: slurmctld hangs, is overloaded or "
                f"can't be reached" + (f" ({said})" if said else "")
            )
        return answer

    def read(self, name: str, args: Sequence[str], stdin: bytes = b"", deadline_s: float | None = None) -> bytes:
        """What the command printed; an exit status is an error."""
        answer = self.ask(name, args, stdin, deadline_s)
        if answer.code != 0:
            raise failure(name, answer)
        return answer.out

    def show(self, questions: Sequence[str], flags: Sequence[str] = ("-a", "-d", "-o")) -> list[bytes]:
        """Answers of one scontrol to several `show` commands.

        A word that nobody can guess stands after each answer, so a text inside one can't pass for the next.
        """
        nonce = f"pal{secrets.token_hex(12)}x"
        lines = [f"{question}\nshow hostnames {nonce}{i}\n" for i, question in enumerate(questions)]
        answer = self.ask("scontrol", flags, "".join(lines).encode())
        answers = []
        rest = b"\n" + answer.out
        for i in range(len(questions)):
            mine, found, rest = rest.partition(f"\n{nonce}{i}\n".encode())
            if not found:
                raise SlurmUnavailable(f"scontrol failed: {printable(answer.err) or 'it stopped half-way'}")
            answers.append(mine)
            rest = b"\n" + rest
        return answers


_FOREIGN = ("SQUEUE_", "SINFO_", "SCONTROL_", "SLURM_", "SDIAG_")


class _TooMuch(Exception):
    pass


def _told_whole(text: bytes) -> Speech:
    words = iter((text,) if text else ())
    return lambda err: next(words, None)


class _Mouth:
    """Standard input of a command, closed when all is said."""

    def __init__(self, child: subprocess.Popen[bytes], selector: selectors.BaseSelector, speech: Speech) -> None:
        assert child.stdin
        self.stdin, self._selector, self._speech = child.stdin, selector, speech
        self._left, self._waits = memoryview(b""), False
        os.set_blocking(self.stdin.fileno(), False)

    def say(self, err: bytearray) -> None:
        """Find the next words, where none are left to write."""
        while not self._left and not self.stdin.closed:
            words = self._speech(err)
            self._wait_for(bool(words))
            if words is None:
                self.stdin.close()
            elif not words:
                return
            else:
                self._left = memoryview(words)

    def write(self) -> None:
        try:
            self._left = self._left[os.write(self.stdin.fileno(), self._left[:_CHUNK]) :]
        except BrokenPipeError:
            self._left, self._speech = self._left[:0], _told_whole(b"")

    def _wait_for(self, room: bool) -> None:
        if room and not self._waits:
            self._selector.register(self.stdin, selectors.EVENT_WRITE)
        elif self._waits and not room:
            self._selector.unregister(self.stdin)
        self._waits = room


def _talk(child: subprocess.Popen[bytes], speech: Speech, deadline_s: float, sink: Sink) -> Answer:
    assert child.stdin and child.stdout and child.stderr
    out, err, taken = bytearray(), bytearray(), 0
    until = time.monotonic() + deadline_s
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, out)
        selector.register(child.stderr, selectors.EVENT_READ, err)
        mouth = _Mouth(child, selector, speech)
        while True:
            mouth.say(err)
            if not selector.get_map():
                break
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready and time.monotonic() >= until:
                return Answer(-1, bytes(out), bytes(err), timed_out=True)
            for key, _ in ready:
                if key.fileobj is child.stdin:
                    mouth.write()
                elif not (chunk := os.read(key.fd, _CHUNK)):
                    selector.unregister(key.fileobj)
                else:
                    taken += len(chunk)
                    if taken > MOST_BYTES:
                        raise _TooMuch
                    if sink is not None and key.fileobj is child.stdout:
                        sink(chunk)
                    else:
                        key.data.extend(chunk)
    try:
        code = child.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Answer(-1, bytes(out), bytes(err), timed_out=True)
    return Answer(code, bytes(out), bytes(err))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the command and whatever it started; what has ended already is no error."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            child.kill()
