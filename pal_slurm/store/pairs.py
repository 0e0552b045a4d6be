"""What each user's jobs showed of two on the same GPUs. In: observations by user. Out: the same, all there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Column, delete, insert, select, tuple_

from pal_slurm.store.engine import Store
from pal_slurm.store.fields import Real, WholeNumber, Words
from pal_slurm.store.rows import chunks, columns, values
from pal_slurm.store.tables import new_table

user_pairs = new_table(
    "user_pairs",
    Column("app", Words(64), primary_key=True),
    Column("beside", Words(64), primary_key=True),  # the application that had the same GPUs
    Column("model", Words(64), primary_key=True),
    Column("gpus", WholeNumber(small=True), primary_key=True, autoincrement=False),
    Column("user", Words(64), primary_key=True),
    Column("mean", Real(), nullable=False),  # log of how much longer a step took, by this user's jobs alone
    Column("var", Real(), nullable=False),
    Column("seen", WholeNumber(small=True), nullable=False),
    Column("seen_at", Real(), nullable=False),
)
_KEY = ("app", "beside", "model", "gpus", "user")


@dataclass(frozen=True, slots=True)
class UserPair:
    """How much longer a step of one user's jobs of an application took beside another application."""

    app: str
    beside: str
    model: str  # as cards call themselves
    gpus: int
    user: str
    mean: float  # log of the factor
    var: float
    seen: int  # stretches of ten minutes
    seen_at: float

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return (self.app, self.beside, self.model, self.gpus, self.user)


class PairRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def every(self) -> list[UserPair]:
        query = select(*columns(UserPair, user_pairs)).order_by(*(user_pairs.c[name] for name in _KEY))
        with self._store.reading() as db:
            return [UserPair(*row) for row in db.execute(query)]

    def of(self, app: str, user: str) -> dict[tuple[str, str, str, int, str], UserPair]:
        mine = (user_pairs.c.app == app) & (user_pairs.c.user == user)
        with self._store.reading() as db:
            found = [UserPair(*row) for row in db.execute(select(*columns(UserPair, user_pairs)).where(mine))]
        return {pair.key: pair for pair in found}

    def put(self, pairs: Iterable[UserPair]) -> None:
        key = tuple_(*(user_pairs.c[name] for name in _KEY))
        given = list(pairs)
        if not given:
            return
        with self._store.writing() as db:
            for some in chunks(given):
                db.execute(delete(user_pairs).where(key.in_([pair.key for pair in some])))
                db.execute(insert(user_pairs), [values(pair) for pair in some])

    def forget(self) -> None:
        """Scores were made anew: what users' jobs showed is to be heard again."""
        with self._store.writing() as db:
            db.execute(delete(user_pairs))
