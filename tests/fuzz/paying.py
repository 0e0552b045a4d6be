"""Worlds about what moves bring (P11) and what one user's word does to others (P12). In: random numbers. Out: a Script.

- moves that are offered and bring nothing: they stop by themselves, and a second wave of jobs is left alone;
- moves by pald's own choice: better GPUs become free for jobs that have much or little time left;
- one user whose samples praise the slow GPUs and damn the fast ones, before the world begins.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.script import Happening, Script, Submission

USERS = ("u1", "u2", "u3")
LIAR = "u9"


def draw(rng: Random) -> Script:
    setting = {"nodes": "3", "release": rng.choice(["26.05", "24.11"])}
    return rng.choice([_losers, _own_choice, _lies])(rng, setting)


def _mover(at: float, runs: float, user: str, minutes: int, word: str = "pal:move") -> Submission:
    return Submission(round(at, 2), round(runs, 1), user, ("--gres=gpu:1", "-t", str(minutes), f"--comment={word}"))


def _losers(rng: Random, setting: dict[str, str]) -> Script:
    """Without scores no GPU is better than another: what a move costs is lost."""
    setting |= {"actuator": "move"}
    jobs = [_mover(number / 10, rng.uniform(60, 75), USERS[number % 3], 10) for number in range(6)]
    offers = [Happening(round(12 + number / 10, 2), "offer", (str(number), node)) for number, node in enumerate(
        ("n3", "n2", "n3", "n2", "n3", "n3")
    )]  # fmt: skip
    later = round(rng.uniform(190, 200), 2)
    for number in (6, 7):
        jobs.append(_mover(later + number / 10, 60.0, USERS[number % 3], 10))
        offers.append(
            Happening(round(later + rng.uniform(12, 16), 2), "offer", (str(number), rng.choice(["n2", "n3"])))
        )
    return Script(tuple(jobs), (*sorted(offers, key=lambda item: item.at), Happening(later + 70.0, "mark")), setting)


def _own_choice(rng: Random, setting: dict[str, str]) -> Script:
    """They start on one node, on its slower GPUs too; then the other nodes come back."""
    setting |= {"actuator": "move", "moves": "own", "scores": "good"}
    words = ("pal:move", "pal:move", "pal:move=60", "pal:move=USR1@8!")
    jobs = [
        _mover(2.0 + number / 5, rng.uniform(100, 200), rng.choice(USERS), rng.choice((4, 5, 6, 20)), rng.choice(words))
        for number in range(4)
    ]
    away = [Happening(1.0, "node", (name, "DRAIN")) for name in ("n2", "n3")]
    back = [Happening(round(rng.uniform(40, 60), 2), "node", (name, "UP")) for name in ("n2", "n3")]
    back.sort(key=lambda item: item.at)
    return Script(tuple(jobs), (*away, *back, Happening(240.0, "mark")), setting)


def _lies(rng: Random, setting: dict[str, str]) -> Script:
    setting |= {"scores": "lied"}
    jobs = [
        Submission(
            round(rng.uniform(0, 60), 2), round(rng.uniform(15, 50), 1), rng.choice((*USERS, LIAR)), (ask, "-t", "3")
        )
        for ask in rng.choices(["--gres=gpu:1", "--gpus=1", "--gres=gpu:2"], k=rng.randint(3, 5))
    ]
    return Script(tuple(sorted(jobs, key=lambda job: job.at)), (), setting)
