"""The demo's jobs. In: a seed. Out: jobs with an arrival time, a size, an application and a length."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

APPS = {"resnet": "A", "bert": "B", "pagerank": "C"}
BASE = {"resnet": 0.20, "bert": 0.25, "pagerank": 0.10}  # seconds per step on a median GPU
MIX = {"resnet": 0.45, "bert": 0.2, "pagerank": 0.35}
TIERS = ("node", "rack", "cluster")
SAVE_S, LOAD_S = 0.3, 0.5  # of jobs that save: a hundredth of what a large model takes, as their lengths are
# With racks: what distance costs each, by the fits of Pollux' measurements on T4s with 50 Gb/s (ResNet-50 on ImageNet,
# BERT) and, for one that hardly talks, Gavel's of ResNet-50 on V100s. Node, rack, cluster.
COMM = {"resnet": (1.0, 1.31, 2.14), "bert": (1.0, 2.4, 4.51), "pagerank": (1.0, 1.06, 1.06)}
RACK_SIZES = {1: 0.20, 2: 0.20, 4: 0.20, 8: 0.25, 12: 0.15}  # GPUs; 12 are three whole nodes
SIZES = {1: 0.25, 2: 0.30, 4: 0.35, 8: 0.10}  # GPUs; 8 are two whole nodes


@dataclass(frozen=True)
class DemoJob:
    number: int
    at: float  # seconds after the start
    app: str
    gpus: int
    steps: int
    apart: bool = False  # distance costs it what COMM says; else what palwork has
    saves: bool = False  # it saves when it is told to end, resumes, and says that it may be moved
    bases: tuple[tuple[str, float], ...] = ()  # seconds per step by GPU model, where they differ
    says: tuple[str, ...] = ()  # more words of its comment
    account: str = ""  # none: Slurm's own default

    @property
    def cls(self) -> str:
        return APPS[self.app]

    @property
    def ideal_s(self) -> float:
        """On median GPUs of its best model, alone."""
        return self.steps * self.base

    @property
    def base(self) -> float:
        return min(seconds for _, seconds in self.bases) if self.bases else BASE[self.app]

    @property
    def nodes(self) -> int:
        return max(1, self.gpus // 4)

    @property
    def limit_min(self) -> int:
        """Its user knows the slowest GPUs and the widest span that it may get."""
        slowest = self.steps * max((seconds for _, seconds in self.bases), default=self.base)
        widest = COMM[self.app][-1] if self.apart and self.nodes > 1 else 1.0
        return max(1, math.ceil(slowest * widest * 2.5 / 60))

    def sbatch(self, directory: str, words: tuple[str, ...] = ()) -> list[str]:
        """What a user would type: the tag is all there is of pal-slurm in it."""
        per_node = min(self.gpus, 4)
        work = f"srun palwork --app {self.app} --class {self.cls} --steps {self.steps} --base {self.base}"
        work += "".join(f" --base-on {model}={seconds}" for model, seconds in self.bases)
        if self.apart:
            work += "".join(f" --comm-{tier} {cost}" for tier, cost in zip(TIERS, COMM[self.app], strict=True))
        comment, more = " ".join((f"app:{self.app}", *self.says)), [*words]
        if self.saves:
            place = f"{directory}/{self.number}"
            work += f" --log {place}.log --checkpoint {place}.saved --on TERM=exit"
            work += f" --save-time {SAVE_S} --load-time {LOAD_S}"
            comment, more = f"{comment} pal:move", [*words, "--requeue", "--open-mode=append"]
        if self.account:
            more.append(f"--account={self.account}")
        return [
            "sbatch", "--parsable", f"--job-name=demo{self.number}", f"--comment={comment}", *more,
            f"--nodes={self.nodes}", "--ntasks-per-node=1", f"--gpus-per-node={per_node}", f"--time={self.limit_min}",
            f"--output={directory}/{self.number}.out", f"--wrap={work}",
        ]  # fmt: skip


def make(
    jobs: int, gpus: int, seed: int, load: float, mean_s: float, saves: bool = False, apart: bool = False
) -> list[DemoJob]:
    """`load`: offered GPU-seconds per GPU-second while jobs arrive. `apart`: of sizes for which racks count."""
    sizes = RACK_SIZES if apart else SIZES
    rng = random.Random(seed)
    drawn = []
    for _ in range(jobs):
        app = rng.choices(list(MIX), list(MIX.values()))[0]
        size = rng.choices(list(sizes), list(sizes.values()))[0]
        seconds = min(1.8, max(0.5, rng.lognormvariate(-0.045, 0.3))) * mean_s
        drawn.append((app, size, max(1, round(seconds / BASE[app]))))
    work = sum(size * steps * BASE[app] for app, size, steps in drawn)
    span = work / (gpus * load)
    gaps = [rng.expovariate(1.0) for _ in drawn]
    scale, at = span / sum(gaps), 0.0
    made = []
    for number, ((app, size, steps), gap) in enumerate(zip(drawn, gaps, strict=True)):
        at += gap * scale
        made.append(DemoJob(number, at, app, size, steps, apart, saves))
    return made
