"""Any program that prints one JSON line per step. In: its command line. Out: a Kernel.

A line is an object; `seconds` (or `step_time`) is the time of a step and `steps` how many the line speaks for. Without
a time, the time from line to line counts. Other lines are passed over. The program is started anew for each run and
ended when it has done enough steps; where it prints several lines, the first is its warm-up and does not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator

from pal_slurm.probe.errors import BadInput, ProbeError
from pal_slurm.probe.kernels import Done, Kernel, Target
from pal_slurm.probe.words import plain

ABOUT = "a program that prints one JSON line per step; argument: its command line"
_MOST_STEPS = 10**6
_MOST_SECONDS = 1e9


def prepare(target: Target, argument: str) -> Kernel:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise BadInput(f"--kernel command: {error} in {argument!r}") from error
    if not words:
        raise BadInput("--kernel command: name the program, as in command:./bench --size 4")
    return Program(words, target)


class Program:
    def __init__(self, words: list[str], target: Target) -> None:
        self._words, self._target = words, target
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, steps: int) -> Done:
        told: list[Done] = []
        for done in self._lines():
            told.append(done)
            if sum(each.steps for each in told[1:]) >= steps:
                break
        code = self._end()
        counted = told[1:] or told
        if not counted:
            how = "" if code is None else f" and ended with exit code {code}"
            raise ProbeError(f"{plain(self._words[0], 100)} printed no JSON line of a step{how}")
        return Done(sum(each.seconds * each.steps for each in counted), sum(each.steps for each in counted))

    def _lines(self) -> Iterator[Done]:
        env = {**os.environ, "PAL_PROBE_GPU": self._target.uuid}
        try:
            process = subprocess.Popen(self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env)
        except OSError as error:
            raise ProbeError(f"{plain(self._words[0], 100)} can't be started: {error.strerror}") from error
        self._process = process
        assert process.stdout is not None
        before = time.perf_counter()
        for line in process.stdout:
            now = time.perf_counter()
            done = _told(line, now - before)
            if done is not None:
                before = now
                yield done

    def _end(self) -> int | None:
        """Its exit code, if it ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.stdout is not None:
            process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.2)
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return None

    def close(self) -> None:
        self._end()


def _told(line: bytes, since: float) -> Done | None:
    """What a line says about steps; None: it says nothing about them."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    seconds, steps = record.get("seconds", record.get("step_time", since)), record.get("steps", 1)
    if "step_time" in record:  # then `seconds`, if it is there, is the time of all of them
        seconds = record["step_time"]
    good = isinstance(seconds, int | float) and isinstance(steps, int) and not isinstance(steps, bool)
    if not good or not 0 < seconds <= _MOST_SECONDS or not 0 < steps <= _MOST_STEPS:
        raise ProbeError(f"the program printed {plain(line.decode('utf-8', 'replace'), 120)!r}, which is no step")
    return Done(float(seconds), steps)
