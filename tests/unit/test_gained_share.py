"""What a week gained, and how surely: the interval widens with how alike those are who gained it."""

from __future__ import annotations

from pytest import approx

from pal_slurm.model import Action, Decision, Placement, Reason
from pal_slurm.report.gain import Gained, gained, gained_share
from pal_slurm.store import JobOutcome, Why


def one(saved: float, who: tuple[str, str], hours: float = 10.0) -> Gained:
    return Gained("A", 2, 0.0, hours, saved, who)


def test_it_is_hours_saved_over_hours_used() -> None:
    share = gained_share([one(1.0, ("a", "x")), one(3.0, ("b", "y"), 30.0)])
    assert share is not None
    assert (share.jobs, share.gpu_hours, share.saved) == (2, 40.0, 4.0)
    assert share.share == approx(0.1)


def test_nothing_that_ran_is_no_share() -> None:
    assert gained_share([]) is None
    assert gained_share([one(0.0, ("a", "x"), 0.0)]) is None


def test_one_user_s_application_alone_has_no_interval_however_often_it_ran() -> None:
    share = gained_share([one(float(n % 3), ("a", "x")) for n in range(50)])
    assert share is not None and share.reach is None


def test_many_jobs_of_two_users_are_two_and_not_many() -> None:
    """The same hundred jobs, said by two and by a hundred: the interval knows the difference."""
    alike = [one(n % 2 * 2.0, ("ab"[n % 2], "x")) for n in range(100)]
    apart = [one(n % 2 * 2.0, (str(n), "x")) for n in range(100)]
    few, many = gained_share(alike), gained_share(apart)
    assert few is not None and few.reach is not None
    assert many is not None and many.reach is not None
    assert few.share == many.share == approx(0.1)
    assert few.reach > 10 * many.reach
    assert many.share - many.reach > 0 > few.share - few.reach


def test_equal_gains_are_sure() -> None:
    share = gained_share([one(1.0, (str(n), "x")) for n in range(5)])
    assert share is not None and share.reach == approx(0.0, abs=1e-9)


def test_who_ran_what_comes_from_the_outcome() -> None:
    got = JobOutcome(
        1, 0, 1000, "A", ("n1",), ((0,),), end=4600, app="bert", step_time=1.0, slurm_step_time=1.2, user="u"
    )
    [found] = gained((), [got], 5000.0)
    assert found.who == ("u", "bert") and found.saved == approx(0.2)
    place = Placement(("n1",), ((0,),), exact=True)
    plan = Decision(1, None, Action.START, Reason.BEST_SPAN, place, 0.8)
    why = Why(plan, 0, 0.0, "shadow", "bert", True, "A", 1, 1, 0)
    [shadow] = gained([why], [JobOutcome(1, 0, 1000, "A", ("n1",), ((0,),), end=4600, step_time=1.0, user="v")], 5000.0)
    assert shadow.who == ("v", "") and shadow.saved == approx(0.2)
