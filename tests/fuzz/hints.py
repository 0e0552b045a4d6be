"""Worlds in which one person, with two accounts, forges the tags of his jobs (P12). In: random numbers. Out: a Script.

All wait behind one large job. Each honest user has shown the class of what he runs; the hostile one has shown class C
under one name, and has written files that say class A. `forged` puts such tags into any other world.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from pal_slurm.config import Config
from pal_slurm.intake.samples import samples_of
from pal_slurm.learning.classes import learn_classes
from pal_slurm.probe.document import JobPart, Telemetry, Usage
from pal_slurm.store import open_store
from pal_slurm.store.samples import SampleRepo
from tests.fuzz.script import Happening, Script, Submission

APPS = {"resnet": {"class": "A"}}  # as an admin lists it
RUNS = {"u1": "vgg", "u2": "bert", "u3": "rank"}  # of classes A, B, C
HOSTILE = ("u8", "u9")
HONEST = "app:rank"  # what his tags would be
FORGED = ("app:resnet", "app:vgg", "app:bert", "app:never-seen", "app:lie", "", "app:rank")
ASKS = ("--gres=gpu:1", "--gpus=1", "--gres=gpu:2", "--gpus=2", "--gres=gpu:4", "-N2 --gres=gpu:1", "-a 0-2 --gpus=1")
USE = {"A": (0.85, 0.25), "B": (0.55, 0.50), "C": (0.20, 0.80)}  # compute, memory
SHOWN = (
    ("u1", "vgg", "A"), ("u2", "bert", "B"), ("u2", "gpt", "B"), ("u3", "rank", "C"), ("u3", "lbm", "C"),
    ("u1", "resnet", "A"), ("u9", "lie", "C"),
)  # fmt: skip
SAID = (("u8", "vgg", "A"), ("u8", "resnet", "A"), ("u9", "vgg", "A"), ("u9", "never-seen", "A"), ("u9", "bert", "A"))


def draw(rng: Random, setting: dict[str, str]) -> Script:
    setting |= {"scores": "classes", "hints": "forged"}
    blocker = Submission(0.0, round(rng.uniform(45, 70), 1), "u0", ("-N3", "--gres=gpu:4", "-t", "3"))
    honest = [_job(rng, user, f"app:{RUNS[user]}") for user in rng.choices(list(RUNS), k=rng.randint(2, 5))]
    others = [_job(rng, rng.choice(HOSTILE), rng.choice(FORGED)) for _ in range(rng.randint(2, 6))]
    jobs = (blocker, *sorted((*honest, *others), key=lambda job: job.at))
    return Script(jobs, tuple(_edits(rng, jobs)), setting)


def _job(rng: Random, user: str, tag: str) -> Submission:
    options = [*rng.choice(ASKS).split(), "-t", "3", *([f"--comment={tag}"] if tag else [])]
    return Submission(round(rng.uniform(1, 30), 2), round(rng.uniform(15, 60), 1), user, tuple(options))


def _edits(rng: Random, jobs: tuple[Submission, ...]) -> list[Happening]:
    """He changes his tags while his jobs wait, and holds some of them."""
    found: list[Happening] = []
    for line, job in enumerate(jobs):
        if job.user not in HOSTILE or any(word.startswith("-a") for word in job.options):
            continue
        if rng.random() < 0.3:
            tag = rng.choice([tag for tag in FORGED if tag])
            found.append(Happening(round(rng.uniform(job.at + 1, 44), 2), "edit", (str(line), f"comment={tag}")))
        elif rng.random() < 0.15:
            at = round(rng.uniform(job.at + 1, 40), 2)
            found += [Happening(at, "hold", (str(line),)), Happening(round(at + 60.0, 2), "release", (str(line),))]
    return sorted(found, key=lambda item: item.at)


def honest(script: Script) -> Script:
    """The same world with the tags that his jobs deserve."""
    jobs = [_retagged(job, HONEST) if job.user in HOSTILE else job for job in script.jobs]
    happenings = [
        replace(item, words=(item.words[0], f"comment={HONEST}")) if _tags(item) else item for item in script.happenings
    ]
    return replace(script, jobs=tuple(jobs), happenings=tuple(happenings))


def _tags(item: Happening) -> bool:
    return item.what == "edit" and item.words[1].startswith("comment=app:")


def _retagged(job: Submission, tag: str) -> Submission:
    words = (word for word in job.options if not word.startswith("--comment="))
    return replace(job, options=(*words, f"--comment={tag}"))


def forged(rng: Random, script: Script) -> Script:
    """Any other world: of one user's jobs those without a comment are tagged, whatever else goes wrong there."""
    users = sorted({job.user for job in script.jobs})
    liar = rng.choice(users)
    jobs = [
        _retagged(job, rng.choice([tag for tag in FORGED if tag]))
        if job.user == liar and not any(word.startswith("--comment") for word in job.options)
        else job
        for job in script.jobs
    ]
    return replace(script, jobs=tuple(jobs), setting={**script.setting, "hints": "forged"})


def put_shown(database: Path, now: float) -> None:
    """What the nodes saw of users' jobs, and what the hostile one wrote himself."""
    store = open_store(f"sqlite:///{database}")
    try:
        for number, (user, app, cls) in enumerate((*SHOWN, *SAID)):
            compute, memory = USE[cls]
            seen = Telemetry(60, util_compute=compute + number / 100, util_memory=memory)
            at = now - 86_400.0
            usage = (Usage("GPU-n1-0", at, at + 500.0, seen),)
            part = JobPart(f"8{number}", "n1", 0, "fuzz", app, (), usage, (), (), at, at + 500.0, last=True)
            word = (user, app, cls) in SAID
            SampleRepo(store).add(samples_of(part, f"{number:048x}", "sim", user, his_word=word))
        learn_classes(store, Config(), now)
    finally:
        store.close()
