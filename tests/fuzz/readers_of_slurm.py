"""Readers of what Slurm says, and of what pald itself wrote down. In: bytes. Out: as in readers.py."""

from __future__ import annotations

import hmac
import re
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from pal_slurm.config import Config
from pal_slurm.daemon.figures.serving import _Readings
from pal_slurm.daemon.leases.alive import Alive, is_name
from pal_slurm.daemon.pausing import paused
from pal_slurm.daemon.users.asking import _question
from pal_slurm.model import Request, read_hint
from pal_slurm.page.asked import Wrong, job_id
from pal_slurm.page.token import user_of
from pal_slurm.policy.memory import NO_MEMORY, memory_of
from pal_slurm.report.present import from_bytes, to_bytes
from pal_slurm.slurm import gres
from pal_slurm.slurm.commands.accounts import read_runs
from pal_slurm.slurm.commands.batch import Batch, Terms
from pal_slurm.slurm.commands.bound import bound
from pal_slurm.slurm.commands.cluster import (
    read_config,
    read_machine,
    read_partitions,
    read_passes,
    read_topology,
    to_setup,
)
from pal_slurm.slurm.commands.columns import QueueRow, layout, rows
from pal_slurm.slurm.commands.details import devices_of, excluded_of, sole_lines
from pal_slurm.slurm.commands.qos import preempting
from pal_slurm.slurm.commands.queue import Unread, megabytes, minutes, to_record
from pal_slurm.slurm.commands.read import QueueReader
from pal_slurm.slurm.commands.run import Answer, Commands, Sink, Speech
from pal_slurm.slurm.commands.shares import read_deadlines, read_qos, read_tree
from pal_slurm.slurm.devices import parts_of, taken
from pal_slurm.slurm.excluded import ours_of, understood, with_ours
from pal_slurm.slurm.mark import read_mark
from pal_slurm.slurm.nodes import PLAIN_WORDS, SiteWords
from pal_slurm.slurm.nodeset import expand, unfold
from pal_slurm.slurm.pyslurm import messages
from pal_slurm.slurm.reasons import why
from pal_slurm.slurm.records import JobRecord, read_tasks, to_job
from pal_slurm.slurm.snapshots import to_snapshot
from pal_slurm.store import jsontext
from tests.fuzz.guided import every

_HOME = tempfile.TemporaryDirectory(prefix="pal-state")
HOME = Path(_HOME.name)
_KEY = b"0123456789abcdef"
_NODE = re.compile(r"[A-Za-z]+[0-9]{0,6}")  # names that a site gives
_NODES = b"NodeName=n1 State=IDLE Gres=gpu:2 CPUTot=4"
_PARTITIONS = b"PartitionName=gpu Nodes=n1 State=UP OverSubscribe=EXCLUSIVE"
_LAYOUT = layout(frozenset({"ExcNodes", "Exclusive"}))
_DECODERS = (messages.HELLO, messages.SETUP, messages.PASSES, messages.PULSE, messages.ANSWER, messages.UNREAD)


class Printed(Commands):
    """Slurm's commands, where every one prints the same."""

    def __init__(self, out: bytes) -> None:
        super().__init__()
        self._out = out

    def run(
        self,
        name: str,
        args: Sequence[str],
        stdin: bytes | Speech = b"",
        deadline_s: float | None = None,
        sink: Sink = None,
    ) -> Answer:
        if sink is not None:
            sink(self._out)
        return Answer(0, b"" if sink is not None else self._out, b"")


def words(data: bytes) -> None:
    """Texts within Slurm's records: users write some of them."""
    text = data.decode("utf-8", "replace")
    read_mark(text), read_hint(text), is_name(text), why(text), read_tasks(text), megabytes(text), minutes(text)
    gres.gpus_in(text), gres.indices_of(text), gres.beside(text), gres.amount_per_gpu(text), gres.slots_in(text)
    gres.types_in(text), gres.same(text, text), parts_of(text)
    assert gres.same(text, text)
    gone = taken(text, (gres.Gpus("a100", 2), gres.Gpus("", 2)))
    assert gone <= {0, 1, 2, 3}
    names = unfold(text)
    assert expand(text) == set(names)
    if 0 < len(names) < 50 and understood(text) and all(map(_NODE.fullmatch, names)):
        assert (found := ours_of(with_ours(names, text))) is not None and found.own == text
    ours_of(text)
    with suppress(Wrong):
        job_id(text)


def records_of(data: bytes) -> bytes:
    """squeue's fixed columns, of lines `Column=value`; an empty line begins another record."""
    made = []
    for part in data.split(b"\n\n"):
        told = dict(line.partition(b"=")[::2] for line in part.split(b"\n"))
        cells = (told.get(name.encode(), b"")[:width].ljust(width) for name, width in _LAYOUT.columns)
        made.append(b"".join(cells) + b"\n")
    return b"".join(made)


def queue(data: bytes) -> None:
    """The queue: what can't be understood is one job's loss."""
    found: list[QueueRow] = []

    def read_rows(out: bytes) -> None:
        found.extend(rows(out, _LAYOUT))

    every((lambda: read_rows(data), lambda: read_rows(records_of(data)), lambda: bound(Printed(data), [1])))
    jobs = []
    for row in found:
        try:
            jobs.append(to_job(to_record(row)))
        except Unread as error:
            assert str(error).isprintable()
    snapshot = to_snapshot(read_machine([_NODES, _PARTITIONS, b"", b""]), jobs, PLAIN_WORDS)
    assert len(snapshot.pending) + len(snapshot.running) <= len(jobs)


def answers(data: bytes) -> None:
    """What scontrol, sdiag, sacct, sacctmgr and squeue print."""
    text, record = data.decode("utf-8", "replace"), JobRecord(1, 2, "RUNNING", "u", nodes="n[1-2]", excluded_nodes="n3")

    def machine() -> None:
        site = SiteWords(models=("a100",), levels=read_topology(text).levels)
        to_snapshot(read_machine([data] * 4), (), site)

    def shares() -> None:
        told = read_tree(data)
        assert all(0.0 <= part <= 1.0 for part in told.accounts.values())
        assert all(0.0 <= share < float("inf") for share in told.users.values())

    def lines() -> None:
        for line in sole_lines(data, frozenset({1, 7})).values():
            devices_of(line, record), excluded_of(line, record)

    printed = Printed(data)
    every((
        machine, shares, lines, lambda: to_setup(read_config(data)), lambda: read_passes(data),
        lambda: read_partitions(data), lambda: list(read_runs(data)), lambda: read_qos(data),
        lambda: read_deadlines(data), lambda: preempting(printed), lambda: Batch(printed).ours(),
        lambda: Batch(printed).submit("n1", "", 1, Terms("x")), lambda: QueueReader(printed).columns(),
    ))  # fmt: skip


def state(data: bytes) -> None:
    """JSON of pyslurm's worker, of the store and of pald's own files; questions of users, scrapers and tokens."""
    raw, text = msgspec.Raw(data), data.decode("utf-8", "replace")

    def machine() -> None:
        to_snapshot(messages.read(messages.MACHINE, raw), (), PLAIN_WORDS)

    def jobs() -> None:
        rows_: list[JobRecord] = messages.read(messages.ROWS, raw)
        to_snapshot(read_machine([_NODES, _PARTITIONS, b"", b""]), map(to_job, rows_), PLAIN_WORDS)

    def present() -> None:
        seen = from_bytes(data)
        assert from_bytes(to_bytes(seen)) == seen

    def remembered() -> None:
        try:
            found = memory_of(msgspec.json.decode(data))
        except (ValueError, RecursionError):  # as MemoryRepo.stored takes it
            found = memory_of(text)
        again = memory_of(msgspec.json.decode(msgspec.json.encode(found.plain())))
        assert found is NO_MEMORY or again == found

    def own_files() -> None:
        (HOME / "pald.paused").write_bytes(data), (HOME / "alive").write_bytes(data)
        paused(Config(state_dir=str(HOME)), None)
        alive = Alive(HOME / "alive")
        alive.shut()

    every((
        *(lambda decoder=decoder: messages.read(decoder, raw) for decoder in _DECODERS),
        jobs, machine, present, remembered, own_files,
        lambda: jsontext.load(text, Request), lambda: jsontext.load(text, dict[str, float]), lambda: _question(data),
        lambda: user_of(signed(data), _KEY, 0.0), lambda: _Readings(bytes).reply(data, 0),
    ))  # fmt: skip


def signed(claims: bytes) -> bytes:
    """As somebody would who has the key: what is behind the signature is what is tried."""
    head, body = (urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256"}', claims))
    signature = urlsafe_b64encode(hmac.new(_KEY, head + b"." + body, sha256).digest()).rstrip(b"=")
    return b".".join((head, body, signature))
