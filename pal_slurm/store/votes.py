"""What each user's jobs say: of GPUs, of applications. In: votes, baselines by user. Out: the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Column, ForeignKey, delete, insert, select, tuple_

from pal_slurm.store.engine import Store
from pal_slurm.store.fields import Real, Words
from pal_slurm.store.rows import columns, values
from pal_slurm.store.tables import Baseline, Id, new_table, user_apps

votes = new_table(
    "votes",
    Column("gpu_id", Id, ForeignKey("gpus.id"), primary_key=True),
    Column("class", Words(32), key="cls", primary_key=True),
    Column("user", Words(64), primary_key=True),
    Column("mean", Real(), nullable=False),  # log of the score, by this user's jobs alone
    Column("var", Real(), nullable=False),
    Column("heard_at", Real(), nullable=False),
)
_SOME = 500


@dataclass(frozen=True, slots=True)
class UserVote:
    """What one user's jobs alone say of one GPU for one class."""

    gpu_id: int
    cls: str
    user: str
    mean: float  # log of the score
    var: float
    heard_at: float


@dataclass(frozen=True, slots=True)
class UserApp:
    """An application as one user's jobs show it."""

    app: str
    user: str
    seen_at: float
    noise: float | None = None
    base: Mapping[str, Baseline] = field(default_factory=dict)  # by shape: model|GPUs|nodes


class VoteRepo:
    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, gpus: Iterable[int], cls: str) -> list[UserVote]:
        wanted, found = sorted(set(gpus)), []
        c = votes.c
        query = select(*columns(UserVote, votes)).where(c.cls == cls)
        with self._store.reading() as db:
            for first in range(0, len(wanted), _SOME):
                found += [
                    UserVote(*row) for row in db.execute(query.where(c.gpu_id.in_(wanted[first : first + _SOME])))
                ]
        return found

    def put(self, given: Iterable[UserVote]) -> None:
        rows = list(map(values, given))
        if not rows:
            return
        key = tuple_(votes.c.gpu_id, votes.c.cls, votes.c.user)
        with self._store.writing() as db:
            for first in range(0, len(rows), _SOME):
                some = rows[first : first + _SOME]
                db.execute(delete(votes).where(key.in_([(row["gpu_id"], row["cls"], row["user"]) for row in some])))
                db.execute(insert(votes), some)

    def forget(self) -> None:
        """Scores were made anew: what users said is to be heard again."""
        with self._store.writing() as db:
            db.execute(delete(votes))

    def apps(self, app: str) -> dict[str, UserApp]:
        """By user."""
        query = select(*columns(UserApp, user_apps)).where(user_apps.c.app == app).order_by(user_apps.c.user)
        with self._store.reading() as db:
            return {app.user: app for app in (UserApp(*row) for row in db.execute(query))}

    def every_app(self) -> list[UserApp]:
        """All applications of all users."""
        query = select(*columns(UserApp, user_apps)).order_by(user_apps.c.app, user_apps.c.user)
        with self._store.reading() as db:
            return [UserApp(*row) for row in db.execute(query)]

    def put_app(self, given: UserApp) -> None:
        mine = (user_apps.c.app == given.app) & (user_apps.c.user == given.user)
        with self._store.writing() as db:
            db.execute(delete(user_apps).where(mine))
            db.execute(insert(user_apps).values(values(given)))
