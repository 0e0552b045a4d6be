"""Worlds in which an entitlement counts, of one GPU model or several. In: random numbers. Out: a Script.

Jobs belong to accounts; what Slurm says of who is to get how much is drawn too, and some of it is no answer at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.commands.run import Commands
from tests.fuzz.script import Happening, Script, Submission

Troubles = Callable[[Random, Sequence[Submission]], tuple[Happening, ...]]
NAMES = (
    "max-min", "max-min", "water-filling", "hierarchical", "hierarchical", "hierarchical-fifo", "finish-time",
    "makespan", "max-sum", "cost", "cost-slo", "fifo", "isolated", "proportional", "strategy-proof", "max-min-agnostic",
)  # fmt: skip
MODELS = ("a100", "a100,a100,v100", "a100,v100,v100", "a100,v100,h100")
ASKS = ("--gres=gpu:1", "--gpus=2", "--gres=gpu:2", "--gres=gpu:4", "--gpus=4", "-N2 --gpus-per-node=2", "--gpus=1")
PLAIN_WISHES = ("", "", "-x n1", "-a 0-2%1", "-p gpu,rest")
MODEL_WISHES = ("-C {0}", "-C {1}", "-C {0}|{1}")
WORDS = ("", "", "app:net", "app:net pal:same", "pal:same", "app:net pal:dearer", "pal:by=2027-01-15T08:{m:02}:00")
CLAIMS = "pal:by=2027-01-15T08:00:30"  # half a minute after the world has begun: nobody can be in time
USERS = ("u1", "u2", "u3")
CLAIMANT = "u9"
APPS = {"net": {"base": {"a100": 1.0, "v100": 3.0, "h100": 0.5}}}  # seconds a step

_TREE = (
    "root|||1", "a1||root|{0}", "a1|u1|a1|1", "a2||root|{1}", "a2|u2|a2|1", "a3||root|{2}", "a3|u3|a3|2",
    "a9||root|{3}", "a9|u9|a9|parent",
)  # fmt: skip
TOLD = {
    "even": (1, 1, 1, 1),
    "heavy": (8, 1, 2, 1),
    "few": (1, 8, 8, 1),
    "zero": (1, 0, 1, 1),
    "nothing": (0, 0, 0, 0),
    "odd": ("NaN", -1, "1e309", "99999999999999999999"),
}
SHARES = (*TOLD, "torn", "ring", "bytes", "empty", "gone")


class Slurmdbd(Commands):
    """sacctmgr, and squeue's deadlines, as far as `fair_shares` asks."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def read(self, name: str, args: Sequence[str], stdin: bytes = b"", deadline_s: float | None = None) -> bytes:
        if name == "squeue":
            return b""
        if self.kind == "gone":
            raise SlurmUnavailable("sacctmgr: slurmdbd does not answer")
        if args[1] == "qos":
            return b"normal|0\nhigh|10\n" if self.kind in TOLD else b"normal|NaN\nhigh"
        return tree(self.kind)


def tree(kind: str) -> bytes:
    told = "\n".join(_TREE).format(*TOLD.get(kind, TOLD["heavy"])).encode()
    ring = told.replace(b"a1||root", b"a1||a2").replace(b"a2||root", b"a2||a1")
    torn, odd = told[: len(told) * 2 // 3], told.replace(b"a2", b"\xff\x00|")
    other = {"empty": b"", "torn": torn, "ring": ring, "bytes": odd}
    return other.get(kind, told)


def draw(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    setting |= {
        "entitlement": f"gavel/{rng.choice(NAMES)}", "shares": rng.choice(SHARES), "models": rng.choice(MODELS),
        "scores": rng.choice(["none", "good"]),
    }  # fmt: skip
    return rng.choice([_mixture, _mixture, _flood, _claims, _same])(rng, setting, troubles)


def _job(rng: Random, at: float, user: str, ask: str, *, word: str = "", runs: float = 0.0) -> Submission:
    options = [*ask.split(), "-A", f"a{user[1:]}", "-t", str(rng.choice([2, 3, 5]))]
    options += [f"--comment={word.format(m=rng.randint(0, 9))}"] if word else []
    return Submission(round(at, 2), round(runs or rng.uniform(10, 70), 1), user, tuple(options))


def _mixture(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    times = sorted(rng.uniform(0, 60) for _ in range(rng.randint(4, 8)))
    jobs, wrong = [], rng.random() < 0.6
    for at in times:
        job = _job(rng, at, rng.choice(USERS), rng.choice(ASKS), word=rng.choice(WORDS))
        # Users edit nodes, too: of a model that is not there nobody's job could ever start.
        wish = rng.choice(PLAIN_WISHES if wrong or "-N2" in job.options else (*PLAIN_WISHES, *MODEL_WISHES))
        models = setting["models"].split(",")
        wishes = wish.format(models[0], models[-1]).split()
        jobs.append(replace(job, options=(*job.options, *wishes)))
    return Script(tuple(jobs), troubles(rng, jobs) if wrong else (), setting)


def _flood(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    """One user sends more than there is room for, and goes on; others come in between, and ask alike."""
    ask, room = rng.choice((("--gres=gpu:2", 6), ("--gres=gpu:2", 6), ("--gres=gpu:4", 3)))
    runs = round(rng.uniform(20, 28), 1)
    setting["shares"] = rng.choice(("even", "few", "few", "few", "zero", "empty", "gone"))
    setting["entitlement"] = rng.choice((setting["entitlement"], "gavel/hierarchical"))
    setting |= {"models": rng.choice((setting["models"], "a100", "a100")), "scores": "none"}  # nobody waits for better
    flood = [_alike(n / 10, runs, "u1", ask) for n in range(2 * room)]
    flood += [_alike(n * runs / room, runs, "u1", ask) for n in range(1, room + 1)]
    user, at = rng.choice(("u2", "u3")), rng.uniform(3, 12)
    others = [_alike(at + n / 5, runs, user, ask) for n in range(rng.randint(1, room // 2 + 1))]
    return Script(tuple(sorted((*flood, *others), key=lambda job: job.at)), (), setting)


def _alike(at: float, runs: float, user: str, ask: str, *more: str) -> Submission:
    return Submission(round(at, 2), runs, user, (ask, "-A", f"a{user[1:]}", "-t", "3", *more))


def _claims(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    """One user says of all his jobs that they are late already."""
    setting |= {"entitlement": "gavel/cost-slo", "shares": rng.choice(("even", "heavy", "empty")), "claims": "yes"}
    setting["models"] = "a100"
    runs = round(rng.uniform(20, 24), 1)
    theirs = [_alike(n / 10, runs, CLAIMANT, "--gres=gpu:2", f"--comment={CLAIMS}") for n in range(14)]
    user, at = rng.choice(USERS), rng.uniform(2, 12)
    others = [_alike(at + n / 10, runs, user, "--gres=gpu:2") for n in range(rng.randint(3, 6))]
    return Script(tuple(sorted((*theirs, *others), key=lambda job: job.at)), (), setting)


def without_claims(script: Script) -> Script:
    jobs = [replace(job, options=tuple(o for o in job.options if CLAIMS not in o)) for job in script.jobs]
    return replace(script, jobs=tuple(jobs))


def _same(rng: Random, setting: dict[str, str], troubles: Troubles) -> Script:
    """Jobs that keep to their GPU model lose their node while the other model is free."""
    setting["models"] = rng.choice(("a100,v100,v100", "a100,v100,h100", "a100,a100,v100"))
    jobs = [
        _job(
            rng, n / 2, rng.choice(USERS), rng.choice(ASKS[:3]), word=rng.choice(WORDS[3:5]), runs=rng.uniform(60, 110)
        )
        for n in range(rng.randint(2, 4))
    ]
    node, at = rng.choice(("n1", "n1", "n2")), rng.uniform(20, 50)
    lost = [
        Happening(round(at, 2), "node", (node, "DOWN")),
        Happening(round(at + rng.uniform(5, 90), 2), "node", (node, "UP")),
    ]
    return Script(tuple(jobs), tuple(lost), setting)
