"""What one edit sets in a job. In: Edit, the job as it stands, the release's capabilities. Out: Rewrite, or a refusal.

Both backends write exactly these fields in one update. Slurm's updates are not atomic, so there is never a second one.
A running job is sent a signal instead, or requeued and updated in one go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pal_slurm.model import Edit, Exclude, Fence, Include, Job, Pin, Renice, Request, Requeue, Unpin, Warn, until
from pal_slurm.slurm import excluded, gres
from pal_slurm.slurm.port import Capabilities

NOW = 0
USER_HOLDS = "JobHeldUser"
MOST_NICE = 2_147_483_645  # Slurm's own bound
# Nothing else ever reaches slurmctld: no blank, quote, newline, bracket beyond a node list's, or leading dash.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_PARTITIONS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(?:,[A-Za-z0-9][A-Za-z0-9._+-]*)*")
_SIGNAL = re.compile(r"USR[12]")
_TRES = re.compile(r"[A-Za-z0-9][A-Za-z0-9:/=,._+-]{0,510}|")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Fields by the names of Slurm's job description; an empty text clears its field."""

    texts: Mapping[str, str] = field(
        default_factory=dict
    )  # nodes, excluded, partition, tres_per_{node,job,task,socket}
    begin: int | None = NOW  # epoch seconds; None: left alone
    min_nodes: int | None = None
    max_nodes: int | None = None
    exact: bool = True  # False: an un-pin that has to leave the typed request in place
    nice: int | None = None
    requeue: bool = False  # first
    anew: bool = False  # first: its priority is Slurm's to reckon
    hold: str = ""  # last, by the same word as before: `hold`, or `uhold`, which its user may release
    signal: str = ""  # nothing but this is sent
    to_script: bool = False
    fence: tuple[str, ...] = ()  # nodes; nothing but this reservation is made, for this job, until `begin`


@dataclass(frozen=True, slots=True)
class CantEdit:
    """The edit can't be made; nothing was written."""

    why: str


def rewrite(edit: Edit, job: Job, caps: Capabilities) -> Rewrite | CantEdit:
    if isinstance(edit, Pin):
        return _pin(edit, job, caps)
    if isinstance(edit, Warn):
        if not _SIGNAL.fullmatch(edit.signal):
            return CantEdit(f"no signal that is ever sent: {edit.signal!r}")
        return Rewrite(begin=None, signal=edit.signal, to_script=edit.to_script)
    if isinstance(edit, Fence):
        good = edit.nodes and all(map(_NODE.fullmatch, edit.nodes))
        return Rewrite(begin=edit.until, fence=edit.nodes) if good else CantEdit("not a list of nodes")
    if isinstance(edit, Exclude):
        return _exclude(edit, job)
    if isinstance(edit, Include):
        if job.excluded is None:
            return CantEdit("no node that it excludes is ours")
        return Rewrite({"excluded": job.excluded.own}, begin=None)
    if isinstance(edit, Renice):
        return _renice(edit, job) if _in_range(edit.nice) else CantEdit(f"no nice: {edit.nice}")
    end = until(edit)
    begin = NOW if end is None else end
    if isinstance(edit, Unpin | Requeue):
        if edit.nice is not None and not _in_range(edit.nice):
            return CantEdit(f"no nice: {edit.nice}")
        made = _unpin(edit, job, caps, begin)
        if isinstance(made, CantEdit):
            return made
        return replace(made, nice=edit.nice, requeue=isinstance(edit, Requeue))
    return Rewrite(begin=begin)


def _renice(edit: Renice, job: Job) -> Rewrite:
    """priority/basic releases a held job whose nice is written: it is held again, and can't start in between."""
    waits = job.pending or job.completing
    if not waits or job.priority:
        return Rewrite(begin=None, nice=edit.nice, anew=edit.anew and waits)
    begin = None if edit.until is None else max(edit.until, job.eligible or 0)
    return Rewrite(begin=begin, nice=edit.nice, hold="uhold" if job.reason == USER_HOLDS else "hold")


def _exclude(edit: Exclude, job: Job) -> Rewrite | CantEdit:
    own = excluded.own_of(job.excluded_nodes)
    if job.array_id is not None or edit.task is not None:
        return CantEdit("the tasks of an array share one list of excluded nodes")
    if job.required_nodes:
        return CantEdit("it names its nodes")
    if not edit.nodes or not all(_NODE.fullmatch(name) for name in edit.nodes):
        return CantEdit(f"not node names: {', '.join(edit.nodes)!r}")
    if not excluded.understood(own):
        return CantEdit("the list of nodes that its user excluded can't be kept as it is")
    text = excluded.with_ours(edit.nodes, own)
    if len(text) > excluded.LONGEST:
        return CantEdit(f"a list of {len(text)} characters is longer than is ever sent")
    return Rewrite({"excluded": text}, begin=None)


def _in_range(nice: int) -> bool:
    return abs(nice) <= MOST_NICE


def original_of(edit: Pin | Unpin | Requeue, job: Job) -> Request:
    """The request as the user made it."""
    return edit.original or (job.lease.original if job.lease else job.request)


def asks_for_slots(request: Request) -> bool:
    return gres.names_slots(request.per_node, request.per_job, request.per_task, request.per_socket)


def _pin(edit: Pin, job: Job, caps: Capabilities) -> Rewrite | CantEdit:
    if job.lease and job.lease.own_nodes:
        return CantEdit("the user named the nodes himself")
    pinned_before = bool(job.required_nodes) or job.restarts > 0
    moved = pinned_before and asks_for_slots(job.request) and not asks_for_slots(original_of(edit, job))
    if job.shape is None and not moved:
        return CantEdit("its request can't be pinned and stay what it is")
    if edit.slots is not None and not edit.shard and job.shape is not None and not job.shape.by_slot:
        return CantEdit("its request can't name slots and stay what it is")
    bad = next((name for name in edit.nodes if not _NODE.fullmatch(name)), None)
    if not edit.nodes or bad is not None:
        return CantEdit(f"not a node name: {bad!r}" if edit.nodes else "a pin needs nodes")
    if len(set(edit.nodes)) != len(edit.nodes):
        return CantEdit("a pin names a node twice")
    texts = {"nodes": ",".join(edit.nodes)}
    if edit.partition is not None:
        if not _PARTITIONS.fullmatch(edit.partition):
            return CantEdit(f"not a partition name: {edit.partition!r}")
        if edit.partition != job.request.partition:
            texts["partition"] = edit.partition
    if edit.slots is not None:
        typed = _part(edit, job, caps) if edit.shard else _typed(edit, job, caps)
        if isinstance(typed, CantEdit):
            return typed
        texts |= typed
    count = len(edit.nodes)
    if job.request.min_nodes == count and job.request.max_nodes in (0, count) and job.ntasks <= count:
        return Rewrite(texts, NOW)  # it can't get another number: left alone, there is nothing to restore
    return Rewrite(texts, NOW, count, count)


def _typed(edit: Pin, job: Job, caps: Capabilities) -> dict[str, str] | CantEdit:
    """The GRES fields that ask for these slots on each node."""
    slots = edit.slots or ()
    if not slots or len(set(slots)) != len(slots) or not all(0 <= slot < 1000 for slot in slots):
        return CantEdit(f"not a set of slots: {slots}")
    if not caps.exact_slots:
        return CantEdit(f"Slurm {caps.release} can't be asked for slots")
    original = original_of(edit, job)
    if not all(_TRES.fullmatch(text) for text in (original.per_node, original.per_job)):
        return CantEdit("the original request holds characters that are never sent")
    node = gres.ask_for(slots, 1, caps.tres_separator)
    whole = gres.ask_for(slots, len(edit.nodes), caps.tres_separator)
    if not caps.repin and asks_for_slots(job.request):
        if gres.same(node, job.request.per_node) or gres.same(whole, job.request.per_job):
            return {}  # the same slots, maybe elsewhere: the node list says all
        return CantEdit(f"Slurm {caps.release} can't move a pin to other slots")
    on_node, on_job = bool(gres.count_of(original.per_node)), bool(gres.count_of(original.per_job))
    if on_node is on_job or gres.count_of(original.per_task) or gres.count_of(original.per_socket):
        return CantEdit("only GPUs per node, or in total, can be asked for by slot")
    if on_node is caps.cross_field:
        typed = {"tres_per_job": _with(original.per_job, whole)}
        if caps.cross_field or job.shard:
            typed["tres_per_node"] = gres.beside(original.per_node)
        return typed
    typed = {"tres_per_node": _with(original.per_node, node)}
    return typed | {"tres_per_job": gres.beside(original.per_job)} if caps.cross_field else typed


def _part(edit: Pin, job: Job, caps: Capabilities) -> dict[str, str] | CantEdit:
    """The GRES fields that ask for a part of this one GPU. Per node: what asks for a part in total never starts."""
    slots, original = edit.slots or (), original_of(edit, job)
    if not (caps.parts and caps.restore_untyped):
        return CantEdit(f"Slurm {caps.release} can't be asked for a part of a GPU that it can take back")
    if len(slots) != 1 or len(edit.nodes) != 1 or not 0 <= slots[0] < 1000:
        return CantEdit(f"not one GPU of one node: {slots}")
    if not job.by_part:
        return CantEdit("its request can't be asked for as a part of a GPU and stay what it is")
    texts = {"tres_per_node": f"{caps.tres_separator.removesuffix('gpu')}shard:g{slots[0]}:1"}
    if job.request.per_job:
        texts["tres_per_job"] = ""
    if job.request.per_task:
        # An empty text would leave it as it is.
        texts["tres_per_task"] = gres.beside(original.per_task) or "cpu=1"
    return texts


def _unpin(edit: Unpin | Requeue, job: Job, caps: Capabilities, begin: int) -> Rewrite | CantEdit:
    original, pin = original_of(edit, job), edit if isinstance(edit, Unpin) and edit.nodes else None
    texts: dict[str, str] = {}
    named = pin is not None and job.required_nodes and not job.asks_for(pin.nodes, ())
    if not (named or (job.lease and job.lease.own_nodes)):
        texts["nodes"] = ""
    ours = pin is None or pin.partition == job.request.partition
    if ours and original.partition and original.partition != job.request.partition:
        if not _PARTITIONS.fullmatch(original.partition):
            return CantEdit("the original partition holds characters that are never sent")
        texts["partition"] = original.partition
    exact = True
    if caps.restore_untyped:
        fields = (
            ("tres_per_node", original.per_node, job.request.per_node),
            ("tres_per_job", original.per_job, job.request.per_job),
            ("tres_per_task", original.per_task, job.request.per_task),
            ("tres_per_socket", original.per_socket, job.request.per_socket),
        )
        for name, was, now in fields:
            if not gres.same(was, now):
                if not _TRES.fullmatch(was):
                    return CantEdit("the original request holds characters that are never sent")
                if not _of_its_user(now):
                    texts[name] = was or gres.beside(now)
    elif asks_for_slots(job.request):
        exact = False
    # No Slurm takes back "no most": up to one node per task says the same.
    made, stands = _range(original, job.ntasks), _range(job.request, job.ntasks)
    if not job.pending:  # it shows what it has: only a number that was free can have been written
        stands = made if made[0] == made[1] else (0, 0)
    elif pin is not None and not job.on_number(len(pin.nodes)):
        made = stands  # somebody asks for another since
    return Rewrite(texts, begin, exact=exact) if made == stands else Rewrite(texts, begin, *made, exact)


def _of_its_user(gpus: str) -> bool:
    """GPUs by no slot, where they are not as before the pin: somebody asked for others since."""
    return gres.count_of(gpus) > 0 and not gres.names_slots(gpus)


def _range(request: Request, ntasks: int) -> tuple[int, int]:
    """Least and most, as Slurm takes them: never a most that is below the least."""
    return request.min_nodes, max(request.min_nodes, request.max_nodes or ntasks)


def _with(text: str, gpus: str) -> str:
    others = gres.beside(text)
    return f"{others},{gpus}" if others else gpus
