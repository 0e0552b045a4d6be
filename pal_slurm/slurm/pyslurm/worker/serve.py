"""The worker's verbs. In: requests from the daemon. Out: rows, outcomes of updates, errors by kind.

    hello       versions, the fields of a job's row
    snapshot    nodes, partitions and reservations in one part, then jobs in several
    jobs        all records of some jobs and arrays
    apply       updates; one part for each, with slurmctld's words
    pulse       (id, state, reason) of every job, as counts and a digest
    passes      counters of slurmctld's own scheduling passes
    setup       what slurm.conf says that matters to us, and the switches

An error's kind is `start` (pyslurm can't be used), `slurm` (slurmctld's answer, with its errno) or `bug`.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from . import older, read, start, write
from .link import Args, Link

PART = 250  # rows per line: the daemon's end works on one part while the next is read
# Records of the whole queue that take as long to read as one job alone: us some 220, slurmctld 8 (26.05, 10,000 jobs;
# its sdiag counts 0.02 ms for one and 25 ms for all, and does not count what each connection costs it).
PER_JOB = 100
NO_SUCH_JOB = 2017


def _since_boot() -> float:
    """As the daemon's clock: the time in which the machine was suspended counts."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Server:
    def __init__(self, link: Link, pyslurm: Any, loaded: str, conf: str) -> None:
        self.link = link
        self.pyslurm = pyslurm
        self.loaded = loaded
        self.conf = conf
        self.queued = 0  # records of the queue when it was last read whole
        self.speaks: str | None = None  # an older release's protocol, once that was needed

    def answer(self, verb: str, args: Args) -> None:
        verbs: dict[str, Callable[[Args], object]] = {
            "snapshot": self.snapshot,
            "jobs": self.jobs,
            "apply": self.apply,
            "pulse": self.pulse,
            "passes": self.passes,
            "setup": self.setup,
        }
        self.link.done(verbs[verb](args))

    def rpc(self, call: Callable[[], Any]) -> Any:
        """A call that reads; a slurmctld of an older release is looked for once."""
        try:
            return call()
        except self.pyslurm.RPCError as error:
            if error.errno not in older.MISMATCH or self.speaks is not None:
                raise
            refused = error
        for release in older.older_protocols(self.conf, self.loaded):
            try:
                self.pyslurm.Nodes.load()
            except self.pyslurm.RPCError as error:
                if error.errno not in older.MISMATCH:
                    raise
                continue
            self.speaks = release
            return call()
        raise refused

    def snapshot(self, args: Args) -> object:
        taken = time.time()
        nodes = self.rpc(self.pyslurm.Nodes.load)
        self.link.part(
            {
                "taken": taken,
                "nodes": read.node_rows(nodes.values()),
                "partitions": nodes.partition_rows(),
                "reservations": read.reservation_rows(self.pyslurm.Reservations.load().values()),
            }
        )
        unread: list[str] = []
        rows: list[read.Row] = []
        self.queued = 0
        for row in read.job_rows(self.pyslurm.Job.walk(), unread):
            rows.append(row)
            if len(rows) == PART:
                self.link.part(rows)
                rows = []
            self.queued += 1
        if rows:
            self.link.part(rows)
        return {"unread": unread}

    def jobs(self, args: Args) -> object:
        ids = args["ids"]
        unread: list[str] = []
        # Of a small queue one look at all costs slurmctld and us less than many at single jobs.
        some = self._few if len(ids) * PER_JOB < max(self.queued, PER_JOB) else self._many
        rows = list(read.job_rows(self.rpc(partial(some, ids)), unread))
        for start_of in range(0, len(rows), PART):
            self.link.part(rows[start_of : start_of + PART])
        return {"unread": unread}

    def _few(self, ids: list[int]) -> list[Any]:
        found: dict[int, Any] = {}
        for number in ids:
            try:
                found.update((job.id, job) for job in self.pyslurm.Job.load_records(number))
            except self.pyslurm.RPCError as error:
                if error.errno != NO_SUCH_JOB:
                    raise
        return list(found.values())

    def _many(self, ids: list[int]) -> Iterator[Any]:
        """`rpc` is done with when the first record is there."""
        wanted = frozenset(ids)
        walk = self.pyslurm.Job.walk()
        first = next(walk, None)
        records = () if first is None else itertools.chain((first,), walk)
        return (job for job in records if job.id in wanted or job.array_id in wanted)

    def apply(self, args: Args) -> object:
        """None is begun after `within_s`: the daemon may be held up, and another lead by then."""
        begun, within_s = _since_boot(), float(args.get("within_s", "inf"))
        for update in args["updates"]:
            in_time = _since_boot() - begun < within_s
            self.link.part(write.apply(self.pyslurm, update) if in_time else write.UNSENT)
        return None

    def pulse(self, args: Args) -> object:
        return self.rpc(self._look)

    def _look(self) -> object:
        pending = running = newest = digest = 0
        for job in self.pyslurm.Job.walk():
            number, state, reason = job.id, job.state, job.state_reason
            pending += state == "PENDING"
            running += state == "RUNNING"
            newest = max(newest, number)
            # A sum: the order in which slurmctld lists the jobs does not matter.
            digest += zlib.crc32(f"{number} {state} {reason} {job.array_tasks_waiting}".encode())
        return {"pending": pending, "running": running, "newest_job": newest, "digest": digest & 0xFFFFFFFF}

    def passes(self, args: Args) -> object:
        stats = self.rpc(self.pyslurm.slurmctld.diag)
        questions = (rpc for name, rpc in stats.rpcs_by_type.items() if name.startswith("REQUEST_") and "INFO" in name)
        return {
            "main": stats.schedule_cycle_counter,
            "backfill": stats.backfill_cycle_counter,
            "server_threads": stats.server_thread_count,
            "rpc_time_us": sum(rpc.time for rpc in questions),
            "started": stats.data_since,
            "told": stats.request_time,
        }

    def setup(self, args: Args) -> object:
        try:
            conf = self.rpc(self.pyslurm.slurmctld.Config.load)
        except self.pyslurm.RPCError:
            # libslurm reads an older slurmctld's jobs and nodes, but not all of them their settings.
            if self.speaks is None:
                raise
            return older.setup_of(self.conf, self.speaks)
        parameters = conf.scheduler_parameters
        return {
            "release": conf.version,
            "cluster": conf.cluster_name or "",
            "scheduler": [key if value is True else f"{key}={value}" for key, value in parameters.items()],
            "priority_type": conf.priority_type or "",
            "priority_flags": conf.priority_flags,
            "plugins": ",".join(conf.job_submit_plugins),
            "topology": read.topology_text(),
        }


def main() -> int:
    link = Link()
    server: Server | None = None
    # Slurm's answers become many objects without cycles; what has cycles is collected while nobody waits.
    gc.disable()
    for verb, args in link.requests():
        try:
            if verb == "hello":
                server = hello(link, args)
                gc.freeze()  # what stands now stays: no need to look at it again
            elif server is None:
                link.error("bug", f"{verb} before hello")
            else:
                server.answer(verb, args)
        except start.StartError as error:
            link.error("start", str(error))
        except Exception as error:  # the boundary: whatever it is, the daemon gets a sentence and goes on
            errno = getattr(error, "errno", None)
            slurm = server is not None and isinstance(error, server.pyslurm.RPCError)
            link.error("slurm" if slurm else "bug", str(error) if slurm else f"{verb}: {error!r}", errno)
        gc.collect()
    return 0


def hello(link: Link, args: Args) -> Server:
    pyslurm = start.import_pyslurm()
    built, loaded = start.check_versions(pyslurm)
    conf = start.initialise(pyslurm, args.get("conf"))
    read.pass_over_unknown(pyslurm.ReservationFlags)
    link.done({"pid": os.getpid(), "built": built, "loaded": loaded, "conf": conf, "fields": read.JOB_FIELDS})
    return Server(link, pyslurm, loaded, conf)
