"""The steps of one copy of palwork. In: its options, seconds per step. Out: steps done, saved, and told in the log."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from palwork_lib.saving import Checkpoint
from palwork_lib.slurm import devices, job, of_slurm
from palwork_lib.together import Together

PATIENCE_S = 30.0  # the first copy waits so long for the others to have saved, before it asks for the requeue
ANSWERS = {
    "stop": "tell how far it got, and end with 128 + the signal's number; that is its answer to TERM unless told",
    "exit": "save, then as stop",
    "go-on": "save, and go on",
    "requeue": "save, and have Slurm requeue the job: the first copy asks, when all have saved",
    "requeue-twice": "the same, and once more",
    "change": "save, change the job's request (--change), and requeue",
    "ignore": "go on as if nothing were",
    "die": "die of it, as a program without a handler does",
    "zero": "end with 0, nothing saved",
    "fail": "end with 1, nothing saved",
}
SAVES = ("exit", "go-on", "requeue", "requeue-twice", "change")


class Ended(BaseException):
    """A signal ended the work."""

    def __init__(self, code: int) -> None:
        self.code = code


class Work:
    """The steps of one copy. Signals are blocked and taken between two sleeps, so none comes amid a save."""

    def __init__(self, options: argparse.Namespace, step_time: float, together: Together) -> None:
        self.options, self.step_time, self.together = options, step_time, together
        self.copy, copies = int(of_slurm("PROCID", "0")), int(of_slurm("STEP_NUM_TASKS", "1"))
        self.answers = {signal.SIGTERM: "stop", **dict(options.on)}
        self.checkpoint = Checkpoint(options.checkpoint, self.copy, copies) if options.checkpoint else None
        self.done = self.first = self.answered = 0
        self.beside = 0.0  # sum of the steps' factors
        self.begun = self.saved_at = time.monotonic()
        self.paused = 0.0  # by saves and answers, since `begun`
        signal.pthread_sigmask(signal.SIG_BLOCK, self.answers)

    def run(self) -> int:
        """To the end, or to a signal's; its exit code."""
        try:
            self._run()
        except Ended as ended:
            return ended.code
        return 0

    def seconds(self) -> float:
        """At work: without what saves and answers took."""
        return time.monotonic() - self.begun - self.paused

    def _run(self) -> None:
        here = {"node": os.environ.get("SLURMD_NODENAME", ""), "gpus": devices()}
        self.log("start", **here, true_step_time=round(self.step_time, 6))
        if self.checkpoint:
            self.first, found = self.checkpoint.enter(self.options.from_zero)
            self.done = self.first
            self.rest(self.options.load_time if self.first else 0.0)
            self.log("resumed" if self.first else "began", checkpoint=found)
        self.begun, self.paused = time.monotonic(), 0.0
        until = 0.0
        while self.done < self.options.steps:
            beside = self.together.factor()
            until += self.step_time * beside
            self.beside += beside
            self.rest(until)
            self.done += 1
            self.log("step", **({"beside": beside} if beside != 1.0 else {}))
            if self.due():
                with self.pause():
                    self.save()
        if self.checkpoint:
            self.checkpoint.save(self.done, self.answered)
            while self.checkpoint.least("steps") < self.options.steps:
                self.rest(self.seconds() + 0.05)
        self.log("end")

    def rest(self, until: float) -> None:
        """Until so many seconds at work; signals are answered meanwhile."""
        while (left := until - self.seconds()) > 0:
            came = signal.sigtimedwait(self.answers, left)
            if came is not None:
                with self.pause():
                    self.answer(signal.Signals(came.si_signo))

    @contextmanager
    def pause(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.paused += time.monotonic() - begun

    def due(self) -> bool:
        every, seconds = self.options.every, self.options.every_seconds
        late = seconds and time.monotonic() - self.saved_at >= seconds
        return bool(late or (every and self.done % every == 0))

    def save(self) -> None:
        assert self.checkpoint
        self.log("saving")
        if self.options.tear:
            self.checkpoint.save(self.done, self.answered, lambda: time.sleep(self.options.save_time))
        else:
            time.sleep(self.options.save_time)
            self.checkpoint.save(self.done, self.answered)
        self.saved_at = time.monotonic()
        self.log("saved")

    def answer(self, number: signal.Signals) -> None:
        how = self.answers[number]
        self.log("signal", signal=number.name, answer=how)
        if how == "die":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
            os.kill(os.getpid(), number)
        if how in ("zero", "fail"):
            raise Ended(0 if how == "zero" else 1)
        if how in SAVES:
            self.answered += 1
            self.save()
        if how in ("stop", "exit"):
            raise Ended(128 + number)
        if how in ("requeue", "requeue-twice", "change") and self.copy == 0:
            self.requeue(how)

    def requeue(self, how: str) -> None:
        """Then it goes on until Slurm ends it, as it does when it may not requeue."""
        assert self.checkpoint
        deadline = time.monotonic() + PATIENCE_S
        while self.checkpoint.least("answers") < self.answered and time.monotonic() < deadline:
            time.sleep(0.02)
        if how == "change":
            self.scontrol("update", f"JobId={job()}", self.options.change)
        for _ in range(2 if how == "requeue-twice" else 1):
            self.scontrol("requeue", job())

    def scontrol(self, *words: str) -> None:
        def unblock() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self.answers)

        line = ["scontrol", *words]
        done = subprocess.run(line, capture_output=True, text=True, preexec_fn=unblock, check=False)
        self.log("scontrol", words=words, code=done.returncode, said=done.stderr.strip())

    def log(self, what: str, **more: Any) -> None:
        if not self.options.log:
            return
        run = {"job": job(), "run": int(of_slurm("RESTART_COUNT", "0")), "copy": self.copy}
        line = {"at": round(time.time(), 4), **run, "what": what, "step": self.done, **more}
        with self.options.log.open("ab", buffering=0) as file:  # one write: lines of copies never mix
            file.write(f"{json.dumps(line)}\n".encode())
