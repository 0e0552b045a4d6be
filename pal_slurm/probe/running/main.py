"""The program pal-run. In: its command line. Out: what the command prints, and the end that it had.

srun pal-run --saved 'model-*.pt' -- python train.py
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pal_slurm import __version__
from pal_slurm.probe.numbers import number
from pal_slurm.probe.running.application import HEARD, PASSED_ON, end_as, start
from pal_slurm.probe.running.tasks import Tasks
from pal_slurm.probe.running.wrapper import RunPlan, Wrapper
from pal_slurm.probe.words import plain

TOLD = sorted(number.name.removeprefix("SIG") for number in PASSED_ON)


def main(arguments: Sequence[str] | None = None) -> int:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)  # first of all: what comes from now on is not lost
    try:
        plan, shared = _plan(arguments)
    except SystemExit:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    alone = () if plan.tell is plan.hears else (plan.hears,)
    try:
        app = start(plan.words, alone)
    except OSError as error:
        sys.stderr.write(plain(f"pal-run: {plan.words[0]}: {error.strerror}") + "\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    tasks = Tasks(os.environ, shared)
    try:
        code = Wrapper(plan, tasks, app).run()
    finally:
        tasks.leave()
    return end_as(code)


def _plan(arguments: Sequence[str] | None) -> tuple[RunPlan, Path]:
    parser = build_parser()
    options = parser.parse_args(arguments)
    words = tuple(options.words[1:] if options.words[:1] == ["--"] else options.words)
    if not words:
        parser.error("no command: pal-run [OPTIONS] -- COMMAND")
    if options.save and options.tell:
        parser.error("--save and --tell: it is asked to save in one way")
    if not (options.save or options.saved or options.exits):
        parser.error("how is a save seen? --save CMD ends well, --saved FILE is new, or the command --exits CODE")
    heard = signal.Signals[f"SIG{options.signal}"]
    tell = None if options.save else signal.Signals[f"SIG{options.tell}"] if options.tell else heard
    plan = RunPlan(words, heard, tell, options.save, options.saved, frozenset(options.exits), options.grace)
    return plan, options.meet


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pal-run",
        usage="pal-run [OPTIONS] -- COMMAND [WORD ...]",
        description="Runs a command that can save its work, so that its job can be moved: on a signal it has it save, "
        "sees that it has, and has Slurm requeue the job. All else is as without it.",
    )
    add = parser.add_argument
    add("--version", action="version", version=f"pal-run {__version__}")
    add("--signal", choices=("USR1", "USR2"), default="USR1", help="the signal that asks for it (default USR1)")
    add("--tell", choices=TOLD, metavar="SIGNAL", help="what the command gets to save (default: the same signal)")
    add("--save", metavar="CMD", help="a shell command that saves, in place of a signal; it finds PAL_RUN_PID")
    add("--saved", metavar="FILE", help="it has saved when this file, or one whose name fits, is new")
    add("--exits", type=_code, action="append", default=[], metavar="CODE", help="it has saved when it ends with CODE")
    add("--grace", type=number(least=0.1, most=86400), default=60.0, metavar="S", help="for the save (default 60)")
    add("--meet", type=Path, default=Path(), metavar="DIR", help="where a step's tasks agree; on all nodes (default .)")
    add("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command, with its words")
    return parser


def _code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 255):
        raise argparse.ArgumentTypeError(f"{text!r} is no exit code from 0 to 255")
    return int(text)
