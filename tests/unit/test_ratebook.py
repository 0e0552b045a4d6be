"""What is known of speeds: by what was seen, by what others show of the models, and by whose word."""

import math

import pytest

from pal_slurm.policy.pools.ratebook import RateBook

APP, OTHER = ("bert", 1), ("resnet", 1)


def values(book: RateBook, app: tuple[str, int] = APP, user: str = "ann") -> list[float]:
    return [rate.value for rate in book.rates(app, user)]


def test_where_nothing_was_seen_all_models_count_alike_and_that_is_doubtful() -> None:
    rates = RateBook(("a100", "v100")).rates(APP, "ann")
    assert [(rate.value, rate.source) for rate in rates] == [(1.0, "none"), (1.0, "none")]
    assert min(rate.doubt for rate in rates) >= 1.0


def test_what_was_seen_of_the_application_counts_and_its_doubt_shrinks() -> None:
    book = RateBook(("a100", "v100"))
    book.saw(APP, 0, "ann", 1.0)
    book.saw(APP, 1, "ann", 4.0)
    first = book.rates(APP, "ann")
    assert values(book) == pytest.approx([1.0, 0.25], rel=0.05)
    for _ in range(20):
        book.saw(APP, 1, "ann", 4.0)
    assert book.rates(APP, "ann")[1].doubt < first[1].doubt / 3
    assert {rate.source for rate in book.rates(APP, "ann")} == {"app"}


def test_a_model_where_it_never_ran_is_to_it_what_it_is_to_others() -> None:
    book = RateBook(("a100", "v100"))
    book.saw(OTHER, 0, "ann", 0.1)
    book.saw(OTHER, 1, "ann", 0.3)
    book.saw(APP, 1, "ann", 6.0)
    rates = book.rates(APP, "ann")
    assert values(book) == pytest.approx([1.0, 1 / 3], rel=0.01)
    assert (rates[0].source, rates[1].source) == ("fleet", "app") and rates[0].doubt > rates[1].doubt


def test_models_are_compared_by_way_of_a_third_one() -> None:
    book = RateBook(("a100", "v100", "k80"))
    for model, step_s in ((0, 1.0), (1, 2.0)):
        book.saw(OTHER, model, "ann", step_s)
    for model, step_s in ((1, 1.0), (2, 5.0)):
        book.saw(("cyclegan", 1), model, "ann", step_s)
    assert values(book) == pytest.approx([1.0, 0.5, 0.1])


def test_one_users_lies_do_not_move_anothers_rates() -> None:
    book = RateBook(("a100", "v100"))
    for user in ("ann", "bob", "eve"):
        book.saw(APP, 0, user, 1.0)
        book.saw(APP, 1, user, 2.0)
    before = values(book, user="dan")
    for _ in range(1000):
        book.saw(APP, 1, "liar", 1e5)
    assert values(book, user="dan") == pytest.approx(before, rel=0.01)
    assert values(book, user="ann") == pytest.approx(before, rel=0.01)


def test_what_one_user_alone_says_is_his_own_affair() -> None:
    book = RateBook(("a100", "v100"))
    book.saw(APP, 0, "liar", 100.0)
    assert book.rates(APP, "ann")[0].source != "app"


@pytest.mark.parametrize("step_s", [0.0, -1.0, math.nan, math.inf, 1e9, 1e-9])
def test_a_step_time_that_cannot_be_is_not_believed(step_s: float) -> None:
    book = RateBook(("a100", "v100"))
    book.saw(APP, 0, "ann", step_s)
    assert book.version == 0 and values(book) == [1.0, 1.0]


def test_rates_stay_within_the_version_they_were_read_at() -> None:
    book = RateBook(("a100", "v100"))
    book.saw(APP, 0, "ann", 1.0)
    version = book.version
    book.saw(APP, 0, "ann", 1.01)  # nothing new: it was known
    assert book.version == version
    book.saw(APP, 1, "ann", 3.0)
    assert book.version > version
