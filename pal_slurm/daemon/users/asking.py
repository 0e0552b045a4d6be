"""Where users ask. In: a line of JSON on a socket of pald's. Out: one of JSON, for who the kernel says it is.

No password and no key: the kernel tells who connected (SO_PEERCRED). Root, and who pald runs as, are told of all jobs.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
import time
from pathlib import Path

import msgspec

from pal_slurm.config.address import UNIX, Address
from pal_slurm.daemon.desk import Desk, Posting
from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import BadInput, PalError
from pal_slurm.report.answering import MOST_BYTES, Answered, Asker, Question, UserAnswers
from pal_slurm.report.pace import TOO_OFTEN, AskPace

MODE = 0o666  # every user of the host
MOST_CLIENTS, MOST_EACH = 32, 4
MOST_ASKED = 1024
POSTING = Posting("users", "users.socket", "users can't ask", "users can ask")
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class Asking(Desk):
    def __init__(self, path: Path | None, answers: UserAnswers, per_minute: int, faults: Faults) -> None:
        listen = f"{UNIX}{path}" if path is not None else ""
        self.pace = AskPace(per_minute)
        self._made_of = answers, per_minute, faults
        super().__init__(Address(listen, MODE), _Window(answers, self.pace, faults), POSTING, faults)
        self._path = path

    def at(self, path: Path | None) -> Asking:
        """The same at another place; itself, if it is there."""
        if path == self._path:
            return self
        self.close()
        return Asking(path, *self._made_of)


class _Window:
    most, most_each, most_asked = MOST_CLIENTS, MOST_EACH, MOST_ASKED

    def __init__(self, answers: UserAnswers, pace: AskPace, faults: Faults) -> None:
        self._answers = answers
        self._pace = pace
        self._faults = faults

    def who(self, channel: socket.socket) -> int:
        told = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid: int = _CREDENTIALS.unpack(told)[1]
        return uid

    def whole(self, asked: bytes) -> bool:
        return b"\n" in asked

    def too_long(self) -> bytes:
        return _line(Answered(error=f"a question is one line of at most {MOST_ASKED} bytes"))

    def reply(self, asked: bytes, who: int) -> bytes:
        if not self._pace.may(who, time.monotonic()):
            return _line(Answered(error=TOO_OFTEN))
        begun = time.thread_time()
        try:
            return self._answer(asked, who)
        finally:
            self._pace.cost(who, time.thread_time() - begun)

    def _answer(self, asked: bytes, who: int) -> bytes:
        try:
            said = _line(self._answers.to(_question(asked), _asker(who)))
        except PalError as error:
            return _line(Answered(error=str(error)))
        except Exception as error:
            self._faults.happened("users", error, alone=True)
            return _line(Answered(error="a fault of pald; your admins find it in its journal"))
        return said if len(said) <= MOST_BYTES else _line(Answered(error="too much to tell; ask for fewer"))


def _question(asked: bytes) -> Question:
    try:
        return msgspec.json.decode(asked.partition(b"\n")[0], type=Question)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput("a question is one line of JSON, as palctl writes it") from error


def _asker(uid: int) -> Asker:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = ""  # nobody: it is told nothing
    return Asker(name, uid in (0, os.geteuid()))


def _line(answered: Answered) -> bytes:
    return msgspec.json.encode(answered) + b"\n"
