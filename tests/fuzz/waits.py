"""Worlds about who waits for whom (P13, P5 by size). In: random numbers. Out: a Script in which nothing goes wrong.

- kinds of jobs, short and long, that have shown how long they run, and then find only slow GPUs free, of one model or
  of several;
- wide jobs in a stream of small ones;
- a wide job that waits for jobs which pald would rather move.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fuzz.script import Happening, Script, Submission

GPUS = 4


def draw(rng: Random, setting: dict[str, str]) -> Script:
    return rng.choice([_kinds, _kinds, _wide, _wide, _movers])(rng, setting)


def _job(at: float, runs: float, user: str, ask: str, minutes: int) -> Submission:
    return Submission(round(at, 2), round(runs, 1), user, (*ask.split(), "-t", str(minutes), "-J", user))


def _kinds(rng: Random, setting: dict[str, str]) -> Script:
    """Each user runs one kind of job. Five of each teach; later long ones hold what is good, and some of both come."""
    setting |= (
        {"scores": "good"}
        if rng.random() < 0.7
        else {"models": rng.choice(["h100,a100,v100", "a100,a100,v100", "h100,a100,a100"])}
    )
    short, long = rng.uniform(1, 3), rng.uniform(50, 100)
    runs = {"short": short, "long": long}
    jobs = [_job(number / 5, runs[user], user, "--gres=gpu:1", 5) for user in runs for number in range(5)]
    at = long + 20.0
    full = rng.randint(9, 11)
    jobs += [_job(at + number * long / 12, long, "long", "--gres=gpu:1", 5) for number in range(full)]
    for _ in range(rng.randint(5, 9)):
        user = rng.choice(["short", "short", "long"])
        jobs.append(_job(at + long * rng.uniform(full / 12, 1.3), runs[user], user, "--gres=gpu:1", 5))
    jobs.append(_job(at + long * rng.uniform(0.75, 0.98), long, "long", "--gres=gpu:1", 5))
    if rng.random() < 0.3:
        ask = rng.choice(["--gres=gpu:1", "-N2 --gres=gpu:2"])
        jobs.append(_job(at + long * rng.uniform(0.5, 1.0), rng.uniform(2, 60), "new", ask, 3))
    if "models" in setting:
        jobs = [replace(job, options=(*job.options, "--comment=app:net")) for job in jobs]
    return Script(tuple(sorted(jobs, key=lambda job: job.at)), (), setting)


def _wide(rng: Random, setting: dict[str, str]) -> Script:
    """Small ones come as fast as they end, before and after."""
    nodes = rng.choice([3, 3, 5, 6])
    setting |= {"nodes": str(nodes), "scores": rng.choice(["none", "good"])}
    runs, gpus = rng.uniform(15, 40), rng.choice([1, 1, 2])
    apart = runs * gpus / (nodes * GPUS)
    jobs = []
    for number in range(min(60, int(4 * runs / apart))):
        jobs.append(
            _job(number * apart, runs * rng.uniform(0.7, 1.3), "small", f"--gres=gpu:{gpus}", rng.choice([1, 2, 5]))
        )
    for number in range(rng.randint(1, 3)):
        wide = rng.randint(2, nodes)
        jobs.append(
            _job(rng.uniform(runs, 3 * runs), rng.uniform(10, 40), f"wide{number}", f"-N{wide} --gres=gpu:4", 2)
        )
    return Script(tuple(sorted(jobs, key=lambda job: job.at)), (), setting)


def _movers(rng: Random, setting: dict[str, str]) -> Script:
    """Jobs that may be moved stand on slow GPUs while others end beside them, and a wide one waits for these."""
    setting |= {"actuator": "move", "moves": "own", "scores": "good", "release": rng.choice(["26.05", "24.11"])}
    jobs = []
    for number in range(12):
        goes = rng.random() < 0.5
        runs = rng.uniform(20, 50) if goes else rng.uniform(150, 250)
        options = ("--gres=gpu:1", "-t", "5" if goes else "20", *(() if goes else ("--comment=pal:move",)))
        jobs.append(Submission(round(number / 10, 2), round(runs, 1), "brief" if goes else "mover", options))
    for number in range(rng.randint(1, 2)):
        at, wide = rng.uniform(10, 25), rng.choice(["-N2 --gres=gpu:2", "-N3 --gres=gpu:2", "--gres=gpu:4"])
        jobs.append(_job(at, 30.0, f"wide{number}", wide, 2))
    end = Happening(round(max(job.at for job in jobs) + 200.0, 2), "mark")
    return Script(tuple(sorted(jobs, key=lambda job: job.at)), (end,), setting)
