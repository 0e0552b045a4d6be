"""What each Slurm release can do, in one table. In: a release as slurmctld tells it. Out: Capabilities.

The rows were found by experiment (docs/backends.md tells how); a release between two rows is as the row before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.port import Capabilities

OLDEST = (22, 5, 0)
PARTS = (23, 11, 5)  # before, a GPU and a shard of it could be given out at once (its changelog); tried from 24.11 on
SAME_SECOND = (26, 5, 0)  # before, the old node refuses such a start, and the job fails; 25.05 and 25.11 weren't tried


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    since: tuple[int, int, int]
    repin: bool
    restore_untyped: bool
    exact_slots: bool
    cross_field: bool
    tres_separator: str


# Up to 23.02.5 an update merges a job's GRES list into the one it had: a type once asked for never goes away, so a pin
# can be made once, only in the field that the user did not use, and never be taken back exactly.
TABLE = (
    ReleaseRow(OLDEST, repin=False, restore_untyped=False, exact_slots=True, cross_field=True, tres_separator="gres:"),
    ReleaseRow(
        (23, 2, 6), repin=True, restore_untyped=True, exact_slots=True, cross_field=False, tres_separator="gres:"
    ),
    ReleaseRow(
        (24, 11, 0), repin=True, restore_untyped=True, exact_slots=True, cross_field=False, tres_separator="gres/"
    ),
)


def parse_release(text: str) -> tuple[int, int, int]:
    """`22.05.8` or `slurm-wlm 26.05.0-0rc1` as numbers."""
    match = re.search(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?", text)
    if not match:
        raise SlurmUnavailable(f"Slurm's answer names no release: {text[:80]!r}")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def capabilities_of(release: str) -> Capabilities:
    """The capabilities of a release; one that is older than the table is refused."""
    number = parse_release(release)
    if number < OLDEST:
        raise SlurmUnavailable(f"Slurm {release} is too old: pal-slurm talks to 22.05 and later")
    row = [row for row in TABLE if row.since <= number][-1]
    return Capabilities(
        release=release,
        repin=row.repin,
        restore_untyped=row.restore_untyped,
        exact_slots=row.exact_slots,
        cross_field=row.cross_field,
        tres_separator=f"{row.tres_separator}gpu",
        same_second=number >= SAME_SECOND,
        parts=number >= PARTS,
    )
