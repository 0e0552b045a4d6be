"""Moves of running jobs as rows and stories. In: moves of the ledger, seconds that each cost. Out: rows, sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pal_slurm.model import Ending, Move
from pal_slurm.report.text import Value, clock, shown
from pal_slurm.report.why import where

FIELDS = (
    "job", "user", "app", "gpus", "began", "ending", "from", "to", "dead_s", "cost_s", "real_cost_s", "gain_s",
    "real_gain_s", "partner", "makes_room_for", "signal", "said", "began_at", "ended_at",
)  # fmt: skip
DEFAULT = (
    "job", "app", "gpus", "began", "ending", "from", "to", "dead_s", "cost_s", "real_cost_s", "gain_s", "real_gain_s",
)  # fmt: skip
HOUR_S = 3600.0

_ENDINGS = {
    None: "It is on its way",
    Ending.MOVED: "It runs there",
    Ending.STOPPED: "It went back to the queue",
    Ending.ELSEWHERE: "It runs elsewhere",
    Ending.STAYED: "It was left where it ran",
    Ending.ENDED: "It ended meanwhile",
}


def move_rows(moves: Sequence[Move]) -> list[dict[str, Value]]:
    """Newest first. `cost_s` and `gain_s` were reckoned before, the real ones measured."""
    return [
        {
            "job": m.job,
            "user": m.user,
            "app": m.app,
            "gpus": m.gpus,
            "began": clock(m.began_at, "%m-%d %H:%M:%S"),
            "ending": "goes-on" if m.ending is None else m.ending.value,
            "from": where(m.old),
            "to": where(m.target) if m.target else "the queue",
            "dead_s": _tenths(m.dead_s),
            "cost_s": _tenths(m.cost_s),
            "real_cost_s": _tenths(m.real_cost_s),
            "gain_s": _tenths(m.gain_s),
            "real_gain_s": _tenths(m.real_gain_s),
            "partner": m.partner,
            "makes_room_for": m.makes_room_for,
            "signal": m.signal or None,
            "said": m.said or None,
            "began_at": m.began_at,
            "ended_at": m.ended_at,
        }
        for m in sorted(moves, key=lambda m: (m.began_at, m.operation), reverse=True)
    ]


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def summary(moves: Sequence[Move], cost_s: Mapping[int, float], balance_gpu_s: float, losing: bool) -> Iterator[str]:
    """`cost_s`: by operation, what each cost as far as it is known."""
    if not moves:
        return
    counts = Counter("going on" if m.ending is None else m.ending.value for m in moves)
    told = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
    lost = sum(m.gpus * cost_s[m.operation] for m in moves)
    yield f"{len(moves)} moves ({told}); they cost {lost / HOUR_S:.2f} GPU hours."
    measured = [m for m in moves if m.real_gain_s is not None]
    if measured:
        hoped = sum(m.gpus * m.gain_s for m in measured)
        got = sum(m.gpus * (m.real_gain_s or 0.0) for m in measured)
        yield (
            f"Of {len(measured)} it was measured what they brought: {got / HOUR_S:.2f} GPU hours, where "
            f"{hoped / HOUR_S:.2f} were reckoned; what they cost taken off, {balance_gpu_s / HOUR_S:.2f}."
        )
    if losing:
        yield "MOVES HAVE STOPPED by themselves: those of the last seven days have cost more than they brought."


def move_sentences(move: Move) -> Iterator[str]:
    """What a move was for, and what came of it."""
    to = "the queue" if move.target is None else where(move.target)
    yield f"{clock(move.began_at, '%Y-%m-%d %H:%M:%S')} it was to move from {where(move.old)} to {to}{_purpose(move)}."
    if move.signal:
        whom = "its batch script" if move.to_script else "its steps"
        yield f"  SIG{move.signal} went to {whom} first, with {move.ahead_s} s to save and to requeue the job."
    if move.step_before and move.step_after:
        speed = f"{move.step_before:.4g} to {move.step_after:.4g} s/step"
        yield f"  Reckoned: {speed}, {move.gain_s:.0f} s won for {move.cost_s:.0f} s lost{_measured(move)}."
    ended = _ENDINGS[move.ending] + (f" ({shown(move.said)})" if move.said else "")
    dead = "" if move.dead_s is None else f"; {move.dead_s:.0f} s between its runs"
    handed = f"; Slurm's queue had it: {shown(move.handed)}" if move.handed and not move.said else ""
    yield f"  {ended}{dead}{handed}."


def _measured(move: Move) -> str:
    cost = "" if move.real_cost_s is None else f"{move.real_cost_s:.0f} s lost"
    gain = "" if move.real_gain_s is None else f"{move.real_gain_s:.0f} s won"
    return f"; measured: {', '.join(filter(None, (gain, cost)))}" if cost or gain else ""


def _purpose(move: Move) -> str:
    if move.makes_room_for is not None:
        return f", to make room for job {move.makes_room_for}"
    if len(move.ring) > 2:
        leave = " and ".join(map(str, move.partners))
        leave = f"jobs {leave} leave" if move.further else f"job {leave} leaves"
        return f", which {leave}; {len(move.ring)} jobs change places"
    return "" if move.partner is None else f", while job {move.partner} takes its GPUs"
