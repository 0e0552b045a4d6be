"""Worlds from a seed. In: a number. Out: a Script; the same number, the same script.

Most worlds are small and full of trouble; some are calm, so that delays can be judged closely; a few are crowded,
for the budgets. Jobs are rows of the table of shapes (tests/slurm/shapes) that such a cluster can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

from pal_slurm.sim.slurm.asks import ask_of, choose
from tests.fuzz import dues, hints, movers, paying, sharers, waits
from tests.fuzz.script import Happening, Script, Submission
from tests.simcluster import Sbatch, nodes
from tests.slurm.shapes.rows import rows_for

NODES = 3
PLACES = {"first": "n1", "second": "n2", "third": "n3", "rack": "rack1", "part": "gpu", "also": "rest"}
COMMON = ("--gres=gpu:1", "--gpus=1", "--gpus=2", "--gres=gpu:2", "--gres=gpu:4", "--gpus=4", "-N2 --gpus-per-node=2")
OWN = (
    "-a 0-3 --gpus=1", "-a 0-2%1 --gres=gpu:2", "--gres=gpu:1 --comment=pal:off", "--gpus=2 -x n1", "--gpus=1 -w n2",
    "--gpus=2 --begin=now+40", "--gpus=1 -H", "-N2 --gres=gpu:4", "--gpus=1 -p gpu,rest", "--gpus=2 -p rest",
    "-n2 --gpus-per-task=1", "--gpus=4 -N1-2", "-N3 --gres=gpu:4", "--gpus=1 --no-requeue", "-n3 -c2",
    "-a 0-3%2 --gpus=1", "--gpus=2 --comment=pal:off", "--gres=gpu:2 -w n3", "--gpus=2 -x n1,n2",
    "-N2 -w n1,n2 --gres=gpu:1",
)  # fmt: skip
HOSTILE = (
    "--comment=app:x;rm -rf /", "--comment=pal1{b=9999999999;n=gpu:9}", "--comment=app:$(id) pal:off;", "-J \x1b[2J",
    "--comment=app:" + "A" * 300, "--comment=' OR 1=1 --", "-J <script>alert(1)</script>", "--comment=app:..%00",
    "--comment=app:resnet class:NaN move:-1", "--comment={}[]()\\", "--comment=app:ａｐｐ",
)  # fmt: skip
LOOKS = ("snapshot.asked", "snapshot.answered", "passes.asked", "read", "write.begun", "write.committed")
WRITES = (
    "ledger.begun", "ledger.done", "ledger.committed", "apply.asked", "apply.answered", "update",
    "write.begun", "write.done", "write.committed",
)  # fmt: skip
EDITS = (
    "excluded_nodes=n1", "excluded_nodes=n2", "required_nodes=n2", "required_nodes=n3", "features=rack1",
    "time_limit_min=3", "comment=pal:off", "partition=rest",
)  # fmt: skip


_ABOUT = {7: dues.draw, 23: dues.draw, 15: sharers.draw}  # with troubles


def draw(seed: int) -> Script:
    rng, about = Random(seed), seed % 40
    if about == 39:
        return paying.draw(rng)
    if about in _ABOUT:
        return _ABOUT[about](rng, _where(rng), _happenings)
    if about in (3, 19, 35):
        return waits.draw(rng, _where(rng))
    if about == 31:
        return hints.draw(rng, _where(rng))
    kind = rng.random()
    if kind < 0.003:
        return _crowd(rng)
    setting = _where(rng)
    if kind < 0.2:
        return _calm(rng, setting)
    if kind < 0.4:
        return movers.draw(rng, setting, _happenings)
    setting |= {"scores": rng.choice(["none", "none", "good"]), "deadman": rng.choice(["yes", "yes", "no"])}
    if rng.random() < 0.08:
        setting["canary"] = "rest"
    if rng.random() < 0.03:
        setting["actuator"] = "shadow"
    if rng.random() < 0.05:
        setting["read_s"] = "3" if seed % 2 else "0.3"  # looks are then a minute apart, and more
    jobs = _jobs(rng, rng.randint(3, 6), 100.0, setting["release"])
    if rng.random() < 0.35:  # all that come after it have to wait
        jobs = (Submission(0.0, round(rng.uniform(40, 90), 1), "u0", ("-N3", "--gres=gpu:4", "-t", "3")), *jobs[1:])
    return Script(jobs, _happenings(rng, jobs), setting)


def draw_forged(seed: int) -> Script:
    """All of them with forged tags: every other one is about nothing else."""
    rng = Random(f"hints {seed}")
    return hints.draw(rng, _where(rng)) if seed % 2 else hints.forged(rng, draw(seed))


def _where(rng: Random) -> dict[str, str]:
    return {"nodes": str(NODES), "release": rng.choice(["26.05", "24.11", "22.05"])}


def _calm(rng: Random, setting: dict[str, str]) -> Script:
    """Nothing goes wrong: what pald costs, and that absurd scores cost nothing."""
    setting["scores"] = rng.choice(["none", "good", "absurd", "absurd"])
    jobs = _jobs(rng, rng.randint(4, 9), 120.0, setting["release"])
    if rng.random() < 0.4:  # many that ask alike: who came first is first
        alike = rng.choice(("--gres=gpu:4", "--gres=gpu:2", "-N2 --gres=gpu:4")).split()
        runs = rng.uniform(15, 40)
        return Script(
            tuple(replace(job, runs=round(runs, 1), options=(*alike, "-t", "3")) for job in jobs), (), setting
        )
    return Script(jobs, (), setting)


def _crowd(rng: Random) -> Script:
    setting = {"nodes": str(NODES), "edits_per_s": "1", "read_s": rng.choice(["0.005", "0.3"])}
    blocks = tuple(Submission(0.0, 150.0, "u0", ("--gres=gpu:4", "-t", "10")) for _ in range(NODES))
    crowd = tuple(Submission(1.0 + n / 20, 2.0, f"u{n % 3}", ("--gres=gpu:4", "-t", "5")) for n in range(85))
    return Script((*blocks, *crowd), (Happening(160.0, "mark"),), setting)


@cache
def shapes(release: str) -> tuple[str, ...]:
    """Rows of the table that the simulated sbatch takes, and that fit on the idle cluster."""
    found = []
    for row in rows_for(release):
        words = row.text.format(**PLACES, before="1", resv="", file="")
        if row.command == "sbatch" and not row.environment and not row.in_script and _fits(words, release):
            found.append(words)
    return tuple(found)


def _fits(words: str, release: str) -> bool:
    if "reservation" in words or "-d " in words or "dependency" in words:
        return False
    try:
        record = Sbatch(release, 0.0).read(words.split()).record
    except (NotImplementedError, ValueError, KeyError, StopIteration, AttributeError):
        return False
    idle = [node.whole for node in nodes(NODES, 4)]
    return choose(ask_of(record), range(NODES), (), lambda row: idle[row], lambda row: idle[row]) is not None


def _jobs(rng: Random, count: int, within: float, release: str) -> tuple[Submission, ...]:
    times = sorted(round(rng.uniform(0, within) * rng.choice([0.2, 1, 1]), 2) for _ in range(count))
    return tuple(_job(rng, line, at, release) for line, at in enumerate(times))


def _job(rng: Random, line: int, at: float, release: str) -> Submission:
    table = rng.choices([COMMON, shapes(release), OWN], [4, 3, 3])[0]
    options = rng.choice(table).split()
    if rng.random() < 0.12:
        name, sign, text = rng.choice(HOSTILE).partition("=" if "=" in HOSTILE[0] else " ")
        options.append(name + sign + text) if name.startswith("--") else options.extend(("-J", text or name[3:]))
    if line and rng.random() < 0.1 and not any(word.startswith("-a") for word in options):
        options += ["-d", f"afterany:{rng.randint(1, line)}"]
    runs = round(rng.choice([rng.uniform(5, 30), rng.uniform(30, 120)]), 1)
    if not any(word.startswith("-t") for word in options):
        options += ["-t", str(rng.choice([2, 3, 5, 10]))]
    return Submission(at, runs, f"u{rng.randint(1, 3)}", tuple(options))


def _happenings(rng: Random, jobs: Sequence[Submission]) -> tuple[Happening, ...]:
    """Most of them about when somebody submits a job: then there is something to disturb."""
    found: list[Happening] = []
    for _ in range(rng.choice([1, 2, 2, 3, 4])):
        line = rng.randrange(len(jobs))
        at = jobs[line].at + rng.uniform(-0.5, 1.5) if rng.random() < 0.7 else rng.uniform(0, 140)
        found += rng.choice(_KINDS)(rng, max(0.0, round(at, 2)), line)
    return tuple(sorted(found, key=lambda item: item.at))


def _skip(rng: Random) -> int:
    return rng.choice([0, 0, 0, 1, 1, 2, 3, 5])


def _kill(rng: Random, at: float, line: int) -> list[Happening]:
    after = rng.choice(["1", "5", "30", "90", "never"])
    return [Happening(at, "kill", (after,), rng.choice(WRITES + LOOKS), _skip(rng))]


def _stall(rng: Random, at: float, line: int) -> list[Happening]:
    seconds = rng.choice(["3", "14", "17", "17", "33", "70"])
    point = rng.choice(WRITES + LOOKS[:2])
    if point in ("apply.asked", "update"):
        # An update that is on its way takes no longer than its deadline.
        short = rng.choice(["3", "9"])
        seconds = short if point == "update" else seconds
    stall = Happening(at, "stall", (seconds,), point, _skip(rng))
    # Of a host whose clock is ahead it takes over at once: also while the other is held up.
    when = at * rng.random() if rng.random() < 0.6 else at + rng.uniform(0.1, 8.0)
    second = [Happening(round(when, 2), "second", (rng.choice(["0", "0", "50"]),))]
    return [stall, *(second if rng.random() < 0.6 else [])]


def _answer(rng: Random, at: float, line: int) -> list[Happening]:
    kind = rng.choice(["lost", "half", "half", "twice", "drop", "refuse", "old"])
    if kind == "lost":
        point = rng.choice(["snapshot.asked", "snapshot.answered", "passes.asked", "apply.asked", "apply.answered"])
        return [Happening(at, kind, (), point, _skip(rng) // 2)]
    if kind == "old":
        return [Happening(at, kind, (rng.choice(["2", "6", "30"]),), "snapshot.asked")]
    return [Happening(at, kind, (), "update", _skip(rng) // 2)]


def _store(rng: Random, at: float, line: int) -> list[Happening]:
    kind = rng.choice(["nostore", "nostore", "forgot", "dbgone"])
    if kind == "forgot":
        return [Happening(at, kind, (), rng.choice(["ledger.committed", "write.committed"]), _skip(rng))]
    if kind == "dbgone":
        return [Happening(at, kind)]
    return [Happening(at, kind, (rng.choice(["0.01", "5", "40"]),), rng.choice(WRITES + LOOKS), _skip(rng))]


def _clock(rng: Random, at: float, line: int) -> list[Happening]:
    return [Happening(at, "clock", (rng.choice(["-3600", "-40", "20", "90", "86400"]),))]


def _node(rng: Random, at: float, line: int) -> list[Happening]:
    name, state = f"n{rng.randint(1, NODES)}", rng.choice(["DRAIN", "DRAIN", "DOWN"])
    where: tuple[str, int] = rng.choice([("", 0), ("ledger.committed", _skip(rng)), ("apply.answered", _skip(rng))])
    back = round(at + rng.choice([20, 60, 120]), 2)
    return [Happening(at, "node", (name, state), *where), Happening(back, "node", (name, "UP"))]


def _user(rng: Random, at: float, line: int) -> list[Happening]:
    job = str(line)
    what = rng.choice(["edit", "edit", "edit", "hold", "cancel", "begin", "requeue"])
    points: Sequence[str] = ("ledger.committed", "apply.answered", "snapshot.answered", "apply.asked")
    where = (rng.choice(points), 0) if rng.random() < 0.6 and what != "requeue" else ("", 0)
    if what == "edit":
        return [Happening(at, what, (job, rng.choice(EDITS)), *where)]
    if what == "begin":
        return [Happening(at, what, (job, rng.choice(["0", "30", "90", "200"])), *where)]
    back = [Happening(round(at + rng.uniform(5, 60), 2), "release", (job,))] if what == "hold" else []
    return [Happening(at, what, (job,), *where), *back]


def _site(rng: Random, at: float, line: int) -> list[Happening]:
    what = rng.choice(["slurmctld", "pause", "undo", "undo", "second", "shadow"])
    if what == "slurmctld":
        return [Happening(at, what, (rng.choice(["5", "30", "80"]),))]
    if what == "pause":
        return [Happening(at, what), Happening(round(at + rng.uniform(10, 60), 2), "resume")]
    again = [Happening(round(at + rng.uniform(1, 20), 2), what)] if what == "undo" and rng.random() < 0.5 else []
    return [Happening(at, what, ("0",) if what == "second" else ()), *again]


_KINDS = (_kill, _kill, _stall, _stall, _answer, _answer, _store, _clock, _node, _node, _user, _user, _user, _site)
