"""The waiting line's blocks: the answers of a plain list, however jobs come and go."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.policy.line import Blocks, InLine
from tests.builders import leased

JOB = leased(1)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 9)), max_size=300), st.integers(0, 99))
def test_blocks_of_the_line_hold_what_a_plain_list_holds(jobs: list[tuple[int, int]], seed: int) -> None:
    rng, held, blocks = random.Random(seed), dict[tuple[float, ...], float](), Blocks([])
    for key, limit_s in jobs:
        at = (float(key),)
        if at in held:
            blocks.take(at)
            del held[at]
        else:
            blocks.add(InLine(at, float(limit_s), JOB))
            held[at] = float(limit_s)
        after, within_s = (float(rng.randint(-1, 400)),), float(rng.randint(0, 9))
        fit = sorted(k for k, s in held.items() if k > after and s <= within_s)
        found = blocks.next(after, within_s)
        assert (found and found.key) == (fit[0] if fit else None)
