"""Which card is meant. In: a UUID, the beginning of one, or NODE:SLOT. Out: the card, or what there is instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pal_slurm.errors import BadInput
from pal_slurm.report.text import clock, shown
from pal_slurm.store import Stay
from pal_slurm.store.cards import CardRepo, Identity

_PLACE = re.compile(r"(.+):g?([0-9]{1,4})")
_FEW = 8


def find_card(repo: CardRepo, text: str, at: float | None) -> Identity:
    """`at`: who sat in NODE:SLOT at that time; None: who sits there now."""
    wanted, uuids = text.strip(), repo.uuids()
    if not uuids:
        raise BadInput("the database knows no GPU yet; begin with: palctl profile run, or palctl scores import FILE")
    place = _PLACE.fullmatch(wanted)
    if wanted not in uuids and place is not None:
        uuid = _in_slot(repo, place[1], int(place[2]), at)
    elif at is not None:
        raise BadInput("--at asks who sat in a slot at that time: name the slot as NODE:SLOT")
    else:
        uuid = _by_uuid(wanted, uuids, repo)
    identity = repo.identity(uuid)
    assert identity is not None
    return identity


def _by_uuid(wanted: str, uuids: Sequence[str], repo: CardRepo) -> str:
    if wanted in uuids:
        return wanted
    if slots := _slots(repo, wanted):
        raise BadInput(f"{wanted!r} is a node; name a slot of it: {_listed(slots)}")
    low = wanted.lower()
    begun = [uuid for uuid in uuids if low and uuid.lower().startswith((low, f"gpu-{low}"))]
    if len(begun) == 1:
        return begun[0]
    if begun:
        more = f" and {len(begun) - _FEW} more" if len(begun) > _FEW else ""
        raise BadInput(f"{wanted!r} begins {len(begun)} UUIDs: {_listed(begun[:_FEW])}{more}; write more of it")
    near = difflib.get_close_matches(wanted, uuids, n=3, cutoff=0.5)
    hint = f"; the nearest are {_listed(near)}" if near else "; palctl scores -o node,slot,uuid lists them"
    raise BadInput(f"no GPU is known as {wanted!r}, and it is no NODE:SLOT{hint}")


def _in_slot(repo: CardRepo, node: str, slot: int, at: float | None) -> str:
    stays = repo.in_slot(node, slot)
    if not stays:
        raise BadInput(f"no GPU was ever seen in {node!r} slot {slot}{_nearest(repo, node)}")
    there = [s for s in stays if (s.until is None if at is None else s.since <= at < (s.until or float("inf")))]
    if there:
        return there[-1].uuid
    when = "now" if at is None else f"at {clock(at)}"
    sat = "; ".join(f"{shown(s.uuid)} {_span(s)}" for s in stays[-_FEW:])
    raise BadInput(
        f"nothing is known to sit in {shown(node)}:{slot} {when}; there was: {sat}. Name a UUID, or --at DATE"
    )


def _span(stay: Stay) -> str:
    return f"from {clock(stay.since)} to {clock(stay.until) if stay.until else 'now'}"


def _nearest(repo: CardRepo, node: str) -> str:
    if slots := _slots(repo, node):
        return f"; there are {_listed(slots)}"
    near = difflib.get_close_matches(node, sorted({name for name, _ in repo.places()}), n=3)
    return f"; nodes of nearly that name: {_listed(near)}" if near else "; palctl scores --per node lists the nodes"


def _slots(repo: CardRepo, node: str) -> list[str]:
    return [f"{name}:{slot}" for name, slot in repo.places() if name == node]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names)
