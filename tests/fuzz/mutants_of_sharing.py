"""Mutants of who has a GPU together with whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pal_slurm.daemon.cycle as cycle
import pal_slurm.daemon.reconcile as reconcile
import pal_slurm.daemon.starts as starts
import pal_slurm.guard.parts as parts
import pal_slurm.policy.neighbours as neighbours
from pal_slurm.daemon.past import Past
from pal_slurm.model import Job, Snapshot
from pal_slurm.policy.neighbours import Host, Neighbours
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


@mutant("jobs of two owners are put on one GPU")
def strangers_together() -> Patches:
    return [(neighbours, "owner_of", lambda job: ""), (parts, "_check_pair", lambda *words: None)]


@mutant("a third job is put beside two")
def three_together() -> Patches:
    def all_of_them(self: Neighbours) -> Iterator[Host]:
        for job, where in self._planner.running.values():
            if job.shard and job.shares:
                row, slot = self._cluster.node_index[where.nodes[0]], where.gpus[0][0]
                model = int(self._cluster.gpu_model[row, slot])
                yield Host(job, self._app(job.hint.app, job.user), row, slot, model, float(job.end or 0))

    def anybody(job: Job, placement: Any, snapshot: Any, *words: Any) -> Job | None:
        there = (o for o in snapshot.running if parts._has(o, placement.nodes[0], placement.gpus[0][0]))
        return next(there, None)

    return [(Neighbours, "_hosts", all_of_them), (import_module("pal_slurm.guard.check"), "check_part", anybody)]


@mutant("whoever could have a part of a GPU gets one, whether he said so or not")
def shared_unasked() -> Patches:
    return [(Job, "shares", property(lambda job: job.shard or job.by_part))]


@mutant("on other nodes that somebody names a waiting part stays one")
def named_parts_left() -> Patches:
    return [
        (reconcile, "_is_left", lambda pin, job: False), (starts, "give_backs", lambda bad, now: iter(())),
        (Past, "_was_ours", lambda *words: None),
    ]  # fmt: skip


@mutant("a GPU of which somebody has a part looks free")
def parts_look_free() -> Patches:
    plan, judge = was(cycle, "plan"), was(starts, "check")

    def free(snapshot: Snapshot) -> Snapshot:
        cluster = snapshot.cluster
        more = cluster.gpu_free if cluster.parts_free is None else cluster.gpu_free | (cluster.parts_free > 0)
        return replace(snapshot, cluster=replace(cluster, gpu_free=more))

    return [
        (cycle, "plan", lambda snapshot, **rest: plan(free(snapshot), **rest)),
        (starts, "check", lambda decisions, snapshot, *rest: judge(decisions, free(snapshot), *rest)),
    ]
