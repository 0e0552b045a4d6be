"""One task under pal-run, as a state machine. In: signals, ends of children, time. Out: a save, a requeue, an exit.

    RUNNING --the signal--> SAVING --saved--> AGREEING --all have--> REQUEUEING --asked--> ENDING --Slurm ends it
       ^                      |                  |                       |                   |
       +---- no save in time -+---- others not --+------- refused -------+-- it does not ----+

Whatever goes wrong leaves the application running, as if nothing had been asked. Signals are blocked and taken one by
one, so none is lost between two states; each but the one that is ours goes to the application as it came.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from pal_slurm.probe.running.application import HEARD, start
from pal_slurm.probe.running.evidence import Evidence
from pal_slurm.probe.running.tasks import FAILED, NO, SAVED, YES, Tasks
from pal_slurm.probe.words import plain

LOOK_S = 0.1  # between two looks at what is awaited; while nothing is, we sleep
BEYOND_S = 5.0  # after the grace, for what the other tasks say
SLURM_S = 60.0  # for slurmctld to take the requeue, and to end the job


class RunStage(Enum):
    RUNNING = "running"
    SAVING = "saving"
    AGREEING = "agreeing"
    REQUEUEING = "requeueing"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class RunPlan:
    words: tuple[str, ...]
    hears: signal.Signals
    tell: signal.Signals | None
    save: str | None  # a command line
    saved: str | None  # a pattern of files
    exits: frozenset[int]
    grace_s: float


@dataclass
class Wrapper:
    plan: RunPlan
    tasks: Tasks
    app: subprocess.Popen[bytes]
    stage: RunStage = RunStage.RUNNING
    until: float = 0.0  # this stage's deadline
    asked: float = 0.0
    over: bool = False  # TERM came
    evidence: Evidence | None = None
    helper: subprocess.Popen[bytes] | None = None  # the save command, then scontrol
    _steps: dict[RunStage, Callable[[], None]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._steps = {
            RunStage.RUNNING: lambda: None,
            RunStage.SAVING: self._saving,
            RunStage.AGREEING: self._agreeing,
            RunStage.REQUEUEING: self._requeueing,
            RunStage.ENDING: self._ending,
        }

    def run(self) -> int:
        """Until the application has ended and nothing more is to be done for it; its exit code, or minus a signal."""
        while True:
            idle = self.stage is RunStage.RUNNING
            came = signal.sigwaitinfo(HEARD) if idle else signal.sigtimedwait(HEARD, LOOK_S)
            if came is not None and came.si_signo != signal.SIGCHLD:
                self._hear(signal.Signals(came.si_signo))
            self._steps[self.stage]()
            ended = self.app.poll()
            if ended is not None and (self.over or self.stage is RunStage.RUNNING):
                return ended

    def _hear(self, number: signal.Signals) -> None:
        running = self.app.poll() is None
        if number is not self.plan.hears:
            # Slurm ends the job, or a person what is left of it: then nobody is waited for.
            self.over = self.over or number == signal.SIGTERM or not running
            self.app.send_signal(number)  # nothing, where it has ended
        elif self.stage is RunStage.RUNNING and running:
            self._begin()

    def _begin(self) -> None:
        self.asked, self.helper = time.monotonic(), None
        self.evidence = Evidence(self.plan.saved) if self.plan.saved else None
        try:
            self.tasks.begin()
        except OSError as error:
            self._say(f"{error.filename}: {error.strerror}: no place for the tasks of this step to meet: --meet DIR")
            return
        self._to(RunStage.SAVING, self.plan.grace_s)
        if self.plan.save is not None:
            env = {**os.environ, "PAL_RUN_PID": str(self.app.pid)}
            self.helper = start(("/bin/sh", "-c", self.plan.save), env=env, stdin=subprocess.DEVNULL)
        if self.plan.tell is not None:
            self.app.send_signal(self.plan.tell)

    def _saving(self) -> None:
        code = self.helper.poll() if self.helper is not None else 0
        ended = self.app.poll()
        if code is None:
            self._late()
        elif code != 0:
            self._failed(f"the save command ended with {code}")
        elif ended is not None and ended not in self.plan.exits:
            self._failed("the application ended instead of saving")
        elif ended is not None or self._seen():
            self._saved()
        else:
            self._late()

    def _seen(self) -> bool:
        """While the application runs: by its file, where one is named, else by the save command's end."""
        return self.evidence.there() if self.evidence is not None else self.helper is not None

    def _late(self) -> None:
        if time.monotonic() > self.until:
            self._failed(f"no sign of a save within {self.plan.grace_s:g} s")

    def _saved(self) -> None:
        self.helper = None
        self.tasks.say(SAVED)
        self._to(RunStage.AGREEING, self.plan.grace_s + BEYOND_S - (time.monotonic() - self.asked))
        if not self.tasks.first:
            self.until += SLURM_S

    def _failed(self, why: str) -> None:
        if self.helper is not None and self.helper.poll() is None:
            self.helper.terminate()
        self.tasks.say(FAILED)
        if self.tasks.first:
            self.tasks.decide(NO)
        self._stay(why)

    def _agreeing(self) -> None:
        if not self.tasks.first:
            word = self.tasks.decided()
            if word == YES:
                self._to(RunStage.ENDING, SLURM_S)
            elif word == NO or time.monotonic() > self.until:
                self.tasks.take_back()
                self._to(RunStage.RUNNING)
            return
        others = self.tasks.others()
        if others == SAVED:
            self._requeue()
        elif others == FAILED or time.monotonic() > self.until:
            self.tasks.decide(NO)
            self._stay("not all tasks of this step have saved")

    def _requeue(self) -> None:
        if self.tasks.job is None:
            self._stay("saved; there is no job to requeue, SLURM_JOB_ID is not set")
            return
        self._say(
            f"saved {time.monotonic() - self.asked:.1f} s after the signal; has Slurm requeue job {self.tasks.job}"
        )
        try:  # `incomplete`: a job that has ended meanwhile stays ended
            words = ("scontrol", "requeue", "incomplete", self.tasks.job)
            self.helper = start(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except OSError as error:
            self.tasks.decide(NO)
            self._stay(f"scontrol: {error.strerror}")
            return
        self._to(RunStage.REQUEUEING, SLURM_S)

    def _requeueing(self) -> None:
        assert self.helper is not None
        code = self.helper.poll()
        if code is None:
            if time.monotonic() > self.until:
                self.helper.kill()
                self.tasks.decide(NO)
                self._stay(f"scontrol gave no answer within {SLURM_S:g} s")
            return
        said = self.helper.stderr.read().decode(errors="replace").strip() if self.helper.stderr else ""
        if code in (0, -signal.SIGTERM):  # it may be ended by the very requeue that it asked for
            self.tasks.decide(YES)
            self._to(RunStage.ENDING, SLURM_S)
        else:
            self.tasks.decide(NO)
            self._stay(f"Slurm does not requeue job {self.tasks.job}: {said or f'scontrol ended with {code}'}")

    def _ending(self) -> None:
        if time.monotonic() > self.until:
            self._stay(f"Slurm did not end job {self.tasks.job} within {SLURM_S:g} s")

    def _stay(self, why: str) -> None:
        self._say(f"{why}; " + ("it goes on" if self.app.poll() is None else "its exit code is passed on"))
        self._to(RunStage.RUNNING)

    def _to(self, stage: RunStage, seconds: float = 0.0) -> None:
        self.stage, self.until = stage, time.monotonic() + seconds

    def _say(self, what: str) -> None:
        task = f"task {self.tasks.rank}: " if self.tasks.count > 1 else ""
        sys.stderr.write(plain(f"pal-run: {task}{what}", 1000) + "\n")
        sys.stderr.flush()
