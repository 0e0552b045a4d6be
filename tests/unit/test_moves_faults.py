"""Whatever goes wrong in a move: the job runs, or ended by itself; never held, never on GPUs that nobody asked for."""

from __future__ import annotations

import pytest

from tests.moves_faults import FAULTS, RELEASES, STATES, cell

ENDS = {"user cancels": "cancelled"}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_mover_is_never_lost(state: str, fault: str, release: str) -> None:
    said = cell(state, fault, release)
    if fault in ENDS:
        assert said == ENDS[fault]
    elif fault == "job ends" and state in ("warned", "runs"):
        assert said == "completed"
    elif fault == "nothing":
        assert said == "runs there"
    else:
        assert said.startswith("runs")
