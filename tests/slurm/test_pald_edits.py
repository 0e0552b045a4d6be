"""Every edit of a waiting job comes out as it does without pald (P2): the rows of tests/slurm/edits."""

from __future__ import annotations

import pytest

from tests.slurm.edits.__main__ import run
from tests.slurm.edits.rows import PARTS, STATES
from tests.slurm.shapes.compare import backends_of
from tests.turns import turn

EVERY = 3  # pushes
QUICK = "abc"  # a job that was requeued waits for two minutes in any case; (d) takes three where the machine is busy


@pytest.mark.every(EVERY)
@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_each_edit_comes_out_as_without_pald(release: str) -> None:
    """A fifth of the edits in one state through one backend, by turns, at one push of three."""
    ways, parts = backends_of(release), len(QUICK) * PARTS
    now = turn(EVERY * parts * len(ways)) // EVERY
    print(f"PAL_TEST_TURN={turn(EVERY * parts * len(ways))}")
    verdicts = run(release, QUICK[now % len(QUICK)], now // len(QUICK) % PARTS, [ways[now // parts]])
    assert [verdict for verdict in verdicts if verdict.differs] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("state", STATES)
def test_so_does_every_edit_in_every_state(release: str, state: str, part: int) -> None:
    verdicts = run(release, state, part, backends_of(release))
    assert [verdict for verdict in verdicts if verdict.differs] == []
