"""How much may still be moved. In: pal.yaml, the moves of the last days. Out: the guard's rules; None: nothing may."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pal_slurm.config import Config
from pal_slurm.config.moves import MovesSection
from pal_slurm.guard import MoveRules
from pal_slurm.model import Ending, Move
from pal_slurm.slurm.port import Capabilities

DAY_S, HOUR_S = 86_400.0, 3_600.0
WEEK_S = 7 * DAY_S
ENOUGH = 5  # measured moves: one whose job ended right after it says nothing yet


def rules_of_moves(
    config: Config,
    week: Sequence[Move],
    now: float,
    caps: Capabilities,
    proven: frozenset[tuple[str, str]],
    may_fence: bool = True,
) -> MoveRules | None:
    keys = config.moves
    if not config.moves_jobs() or losing(week):
        return None
    rules = replace(bounds(keys, week, now), fence=keys.fence and may_fence, other_slots=caps.repin)
    return replace(rules, proven=proven) if keys.mode == "proven" else rules


def bounds(keys: MovesSection, week: Sequence[Move], now: float) -> MoveRules:
    """The keys, and what of them is used up by now."""
    hour = [move for move in week if move.began_at > now - HOUR_S]
    of_job: Counter[int] = Counter()
    for move in week:
        if move.began_at > now - DAY_S:
            # One that was asked and did not go is not asked again on that day.
            asked = move.ending is Ending.STAYED and not move.unasked
            of_job[move.job] += keys.per_job if asked else 1
    return MoveRules(
        first_s=keys.first_s,
        last_s=keys.last_s,
        per_job=keys.per_job,
        per_user=keys.per_user,
        per_cluster=keys.per_cluster,
        at_once=keys.at_once,
        fence=keys.fence,
        share=keys.share,
        of_job=of_job,
        of_user=Counter(move.user for move in hour),
        of_cluster=len(hour),
        going_on=frozenset(move.job for move in week if move.ending is None),
        on_way=sum(move.ending is None and not move.handed for move in week),
        saving=Counter(move.user for move in week if move.signal and move.ending is None and move.stopped_at is None),
        losers=losers(week),
        silent=silent(week, now),
        lost_gpu_s=sum(move.gpus * lost(move) for move in hour),
    )


def lost(move: Move) -> float:
    """Seconds of its GPUs that it cost, as far as they are known: its job's, or those of a target that stood idle."""
    if move.ending is Ending.STAYED:
        return (move.ended_at or move.began_at) - move.began_at if idles(move) else 0.0
    return max(move.cost_s, move.dead_s or 0.0) if move.real_cost_s is None else move.real_cost_s


def idles(move: Move) -> bool:
    """Whether its target stands idle while its job saves: who exchanges takes GPUs that another one uses till then."""
    return bool(move.signal) and move.target is not None and not move.others


def was_silent(move: Move) -> bool:
    """It was asked to save, had all its time, and ran on."""
    over = move.ending is Ending.STAYED and move.signal and not (move.unasked or move.unanswered)
    return bool(over) and (move.ended_at or 0.0) - move.began_at >= move.ahead_s


def silent(week: Iterable[Move], now: float) -> frozenset[str]:
    """Users whose jobs are not asked to save for now: an hour after one that did not answer, twice as long after each
    that follows it, a day at most. By user, for names of applications and job ids are his to choose (P12)."""
    rests: dict[str, float] = defaultdict(lambda: HOUR_S)
    until: dict[str, float] = {}
    for move in sorted(week, key=lambda move: move.began_at):
        if was_silent(move):
            until[move.user] = (move.ended_at or move.began_at) + rests[move.user]
            rests[move.user] = min(DAY_S, 2 * rests[move.user])
        elif move.signal and move.ending in (Ending.MOVED, Ending.ELSEWHERE):
            rests.pop(move.user, None)
            until.pop(move.user, None)
    return frozenset(user for user, end in until.items() if end > now)


def balance(moves: Iterable[Move]) -> float:
    """GPU seconds that measured moves brought, what they cost taken off."""
    return sum(move.gpus * (move.real_gain_s - lost(move)) for move in moves if move.real_gain_s is not None)


@dataclass(frozen=True, slots=True)
class SumOfMoves:
    """Of the last week, for figures and `palctl status`."""

    lost_gpu_s: float
    brought_gpu_s: float  # as far as it was measured
    stopped: bool


def sum_of(week: Sequence[Move]) -> SumOfMoves:
    brought = sum(move.gpus * (move.real_gain_s or 0.0) for move in week)
    return SumOfMoves(sum(move.gpus * lost(move) for move in week), brought, losing(week))


def losing(week: Sequence[Move]) -> bool:
    """Moves of the last week have cost more than they brought: they stop by themselves (P11).

    Also when the one whose jobs lost the most is left out: nobody's word alone stops everybody's moves (P12).
    """
    if sum(map(len, (of_users := by_user(week)).values())) < ENOUGH:
        return False
    brought = sorted(map(balance, of_users.values()))
    return sum(brought) < 0 and (len(brought) == 1 or sum(brought[1:]) < 0)


def losers(week: Sequence[Move]) -> frozenset[str]:
    """Users whose jobs are moved no more: for theirs alone it did not pay."""
    return frozenset(user for user, of in by_user(week).items() if len(of) >= ENOUGH and balance(of) < 0)


def by_user(week: Iterable[Move]) -> dict[str, list[Move]]:
    """Those that were measured."""
    found: dict[str, list[Move]] = defaultdict(list)
    for move in week:
        if move.real_gain_s is not None:
            found[move.user].append(move)
    return found
