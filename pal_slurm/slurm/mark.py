"""The mark that job_submit.lua writes into AdminComment. In: its text. Out: Lease, the request as it was in it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from pal_slurm.model import Lease, Request

_MARK = re.compile(r"pal1\{((?:[^{}\s]*;)?)b=([0-9]{1,15})((?:;[^{}\s]*)?)\}")


def read_mark(admin_comment: str) -> Lease | None:
    """The lease mark, the first word of AdminComment; users can't write there."""
    match = _MARK.match(admin_comment)
    if not match:
        return None
    # The end differs from job to job, the rest seldom does.
    made = _made("".join(match.group(1, 3)))
    if made is None:
        return None
    return replace(made, end=int(match[2]))


@lru_cache(maxsize=4096)
def _made(text: str) -> Lease | None:
    """What a mark says beside the end: the original request, and what else it said that a record no longer shows."""
    fields = dict(part.partition("=")[::2] for part in text.split(";") if part)
    least, _, most = fields.get("N", "").partition("-")
    try:
        nodes = (int(least or 1), int(most or 0))
        not_before = int(fields["u"]) if "u" in fields else None
    except ValueError:
        return None
    original = Request(
        per_node=fields.get("n", ""),
        per_job=fields.get("j", ""),
        per_task=fields.get("t", ""),
        per_socket=fields.get("s", ""),
        min_nodes=nodes[0],
        max_nodes=nodes[1],
        partition=fields.get("P", ""),
        features=fields.get("f", ""),
    )
    return Lease(
        0,
        original,
        own_nodes=fields.get("r") == "1",
        not_before=not_before,
        interactive=fields.get("i") == "1",
        requeue={"0": False, "1": True}.get(fields.get("q", "")),
        asked_to_move=fields.get("m") == "1",
        asked_to_share=fields.get("h") == "1",
        shards_of_users=fields.get("h") == "u",
        prefer=fields.get("F", ""),
    )
