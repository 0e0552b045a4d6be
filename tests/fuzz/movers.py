"""Worlds in which running jobs are moved. In: random numbers. Out: a Script: jobs of all manners, offers, troubles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.fuzz.judge.moves import FIRST_PRIORITY
from tests.fuzz.script import Happening, Script, Submission
from tests.fuzz.users import MANNERS

Troubles = Callable[[Random, Sequence[Submission]], tuple[Happening, ...]]
ASKS = ("--gres=gpu:1", "--gpus=2", "--gres=gpu:2", "--gres=gpu:4", "--gpus=1")
WORDS = (
    "pal:move", "pal:move", "pal:move", "pal:move=USR1@8", "pal:move=USR1@8!", "pal:move=USR1@30!", "pal:move=B:USR2@8",
    "pal:stay", "", "pal:move pal:off", "app:x pal:move",
)  # fmt: skip
MORE = (("--no-requeue",), ("-a", "0-1%1"), ("-N1-2",))
OTHERS = ("--gpus=1", "--gres=gpu:2", "-N2 --gpus-per-node=2", "-N3 --gres=gpu:4", "--gpus=4", "-n3 -c2")


def draw(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    setting |= {"actuator": "move", "scores": rng.choice(["none", "good"]), "deadman": rng.choice(["yes", "yes", "no"])}
    times = sorted(round(rng.uniform(0, 20), 2) for _ in range(rng.randint(2, 4)))
    jobs = [_mover(rng, at) for at in times]
    for _ in range(rng.randint(0, 3)):
        at = round(rng.uniform(20, 70), 2)
        jobs.append(Submission(at, round(rng.uniform(5, 60), 1), "u9", (*rng.choice(OTHERS).split(), "-t", "3")))
    offers = [
        offer for line, at in enumerate(times) if rng.random() < 0.95 for offer in _offer(rng, line, at, len(times))
    ]
    wrong = troubles(rng, jobs) if rng.random() < 0.75 else ()
    said = []
    if rng.random() < 0.2:
        line = rng.randrange(len(times))
        word = rng.choice(["pal:stay", "pal:off", "app:y"])
        said = [Happening(round(times[line] + rng.uniform(3, 40), 2), "says", (str(line), word))]
    if rng.random() < 0.25:
        said += _grasp(rng, offers)
    end = Happening(round(max(times) + rng.uniform(30, 90), 2), "mark")  # nothing is mended, or offered no more, before
    return Script(tuple(jobs), tuple(sorted((*offers, *wrong, *said, end), key=lambda item: item.at)), setting)


def _grasp(rng: Random, offers: Sequence[Happening]) -> list[Happening]:
    """Whose job is on its way wants to keep the place ahead of the queue, for more than it had."""
    theirs = [offer for offer in offers if offer.what == "offer"]
    if not theirs:
        return []
    offer = rng.choice(theirs)
    line, at = offer.words[0], offer.at + rng.uniform(0.5, 12)
    if rng.random() < 0.3:
        return [Happening(round(at, 2), "lower", (line, str(FIRST_PRIORITY + rng.randint(1, 40_000))))]
    more = [Happening(round(at + 0.5, 2), "edit", (line, "time_limit_min=30"))]
    if rng.random() < 0.3:
        return more
    back = Happening(round(at + rng.uniform(1, 15), 2), "release", (line,))
    return [Happening(round(at, 2), "hold", (line,)), *more, back]


def _mover(rng: Random, at: float) -> Submission:
    word, options = rng.choice(WORDS), [rng.choice(ASKS), "-t", rng.choice(["2", "5", "10"])]
    options += [f"--comment={word}"] if word else []
    if rng.random() < 0.1:
        options += rng.choice(MORE)
    manners = rng.choice(sorted(MANNERS)) if "@" in word or rng.random() < 0.5 else ""
    return Submission(at, round(rng.uniform(40, 110), 1), f"u{rng.randint(1, 3)}", tuple(options), manners)


def _offer(rng: Random, line: int, at: float, movers: int) -> list[Happening]:
    when = round(at + rng.uniform(6, 18), 2)
    if rng.random() < 0.15 and movers > 1:
        return [Happening(when, "swap", (str(line), str(rng.choice([n for n in range(movers) if n != line]))))]
    if rng.random() < 0.1:
        return [Happening(when, "offer", (str(line), "queue"))]
    nodes = rng.sample(["n1", "n2", "n3"], 3)
    blind = "!" if rng.random() < 0.3 else ""
    return [Happening(when, "offer", (str(line), ",".join(f"{name}{blind}" for name in nodes)))]
