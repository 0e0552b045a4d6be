"""What the pyslurm worker says, as msgspec reads it. In: JSON. Out: typed messages, or SlurmUnavailable.

Strict: a worker of another version, or one that talks nonsense, is found out here and nowhere further up.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.nodes import Machine
from pal_slurm.slurm.port import Passes, Pulse
from pal_slurm.slurm.records import JobRecord

T = TypeVar("T")


class Hello(msgspec.Struct):
    fields: list[str]
    loaded: str


class Unread(msgspec.Struct):
    unread: list[str]


class Setup(msgspec.Struct):
    release: str
    cluster: str
    scheduler: list[str]
    priority_type: str
    priority_flags: list[str]
    plugins: str
    topology: str


class Answer(msgspec.Struct):
    """What slurmctld said of one update."""

    errno: int
    said: str
    sent: bool = True


HELLO = msgspec.json.Decoder(Hello)
ROWS = msgspec.json.Decoder(list[JobRecord])
MACHINE = msgspec.json.Decoder(Machine)
UNREAD = msgspec.json.Decoder(Unread)
SETUP = msgspec.json.Decoder(Setup)
PASSES = msgspec.json.Decoder(Passes)
PULSE = msgspec.json.Decoder(Pulse)
ANSWER = msgspec.json.Decoder(Answer)


def read(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SlurmUnavailable(f"the pyslurm worker sent a record that can't be understood: {error}") from error
