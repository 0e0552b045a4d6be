"""Worlds in which jobs may have a GPU together. In: random numbers. Out: a Script: jobs, their words, troubles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.fuzz.script import Happening, Script, Submission

Troubles = Callable[[Random, Sequence[Submission]], tuple[Happening, ...]]
ONE = ("--gres=gpu:1", "--gres=gpu:1", "--gpus=1", "-n1 --gpus-per-task=1", "-N1 --gpus-per-node=1")
OTHERS = ("--gres=gpu:1", "--gpus=2", "--gres=gpu:4", "--gpus=1 -x n1", "--gres=gpu:1 -w n2", "--gpus=1 --exclusive")
SHARE = "app:net pal:share"
WORDS = (
    SHARE,
    SHARE,
    SHARE,
    SHARE,
    "app:net",
    "app:loner pal:share",
    "pal:share",
    f"{SHARE} pal:off",
    f"{SHARE} pal:move",
)
TAKEN_BACK = ("app:net", "app:net pal:off", SHARE)
# Two of the first do 1.6 times the work of one; a loner's beside another's is no gain
PAIRS = (
    {"app": "net", "beside": "net", "factor": 1.25, "back": 1.25},
    {"app": "loner", "beside": "loner", "factor": 2.0, "back": 2.0},
)
APPS = {name: {"base": {"gpu": 1.0}} for name in ("net", "loner")}


def draw(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    """Two nodes: the first jobs hold most of their GPUs, and more come."""
    setting |= {"nodes": "2", "shards": rng.choice(["2", "2", "3"]), "sharing": rng.choice(["yes", "yes", "yes", "no"])}
    if setting["release"] == "22.05":
        setting["release"] = "24.11"
    jobs = [Submission(0.2, round(rng.uniform(50, 90), 1), "u0", ("--gres=gpu:4", "-t", "3"))]
    times = sorted(rng.uniform(1, 25) for _ in range(rng.randint(8, 11)))
    jobs += [_job(rng, max(at, 0.8)) for at in times]
    wrong = list(troubles(rng, jobs)) if rng.random() < 0.65 else []
    if rng.random() < 0.35:
        line = rng.randrange(1, len(jobs))
        at = round(jobs[line].at + rng.uniform(0.1, 20), 2)
        wrong.append(Happening(at, "says", (str(line), rng.choice(TAKEN_BACK))))
    if rng.random() < 0.25:
        line = rng.randrange(1, len(jobs))
        wrong.append(Happening(round(jobs[line].at + rng.uniform(5, 40), 2), "requeue", (str(line),)))
    if rng.random() < 0.35:
        line = rng.randrange(1, len(jobs))
        at = round(jobs[line].at + rng.uniform(0.2, 15), 2)
        wrong.append(Happening(at, "edit", (str(line), rng.choice(["required_nodes=n1", "required_nodes=n2"]))))
    return Script(tuple(jobs), tuple(sorted(wrong, key=lambda item: item.at)), setting)


def _job(rng: Random, at: float) -> Submission:
    user = rng.choice(("u1", "u1", "u1", "u1", "u2"))
    shares = rng.random() < 0.85
    options = [*rng.choice(ONE if shares else OTHERS).split(), "-t", rng.choice(["2", "3", "5"])]
    options += [f"--comment={rng.choice(WORDS)}"] if shares or rng.random() < 0.5 else []
    options += ["-A", "a9"] if rng.random() < 0.15 else []  # an account that two users have
    return Submission(round(at, 2), round(rng.uniform(20, 80), 1), user, tuple(options))
