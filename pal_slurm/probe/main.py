"""The program pal-probe. In: its command line. Out: a document, a job's file, or a sentence and an exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pal_slurm.probe import commands, devices, importers, kernels
from pal_slurm.probe.bench import Settings
from pal_slurm.probe.cooling import CoolDown
from pal_slurm.probe.errors import ProbeError
from pal_slurm.probe.numbers import number, whole
from pal_slurm.probe.runner import WaitLimits
from pal_slurm.probe.words import plain

_NUM, _SOME, _WHOLE = number(), number(least=0.001), whole()  # the second: more than nothing
_BENCH, _COOL, _PATIENCE = Settings(), CoolDown(), WaitLimits()


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except ProbeError as error:
        for line in str(error).splitlines():
            sys.stderr.write(plain(f"pal-probe: {line}", 4000) + "\n")
        return error.exit_code
    except BrokenPipeError:
        return 141
    except KeyboardInterrupt:
        return 130
    return code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pal-probe", description="Measures a compute node's GPUs for pal-slurm.")
    parser.add_argument("--version", action="version", version=commands.MADE_BY)
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    _inventory(sub.add_parser("inventory", help="which GPUs this node has, and how they are"))
    _bench(sub.add_parser("bench", help="time kernels on each GPU, and on all at once"))
    _reduce(sub.add_parser("all-reduce", help="time sums over several ranks, near and far apart"))
    _watch(sub.add_parser("watch", help="write down what jobs do on this node's GPUs"))
    _step(sub.add_parser("step", help="within a job: report the time of steps"))
    _import(sub.add_parser("import", help="make a document of another tool's results"))
    _check(sub.add_parser("check", help="read documents as palctl ingest does, and name each defect"))
    _kernels(sub.add_parser("kernels", help="list the kernels"))
    return parser


def _devices_option(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(devices.names())
    parser.add_argument("--devices", default="nvml", metavar="SOURCE", help=f"one of {known}; fake:FILE (default nvml)")


def _output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="a file, or a directory (default: print)")


def _inventory(parser: argparse.ArgumentParser) -> None:
    _devices_option(parser)
    _output_option(parser)
    parser.add_argument(
        "--patience", type=_SOME, default=30.0, metavar="S", help="for one device's answer (default 30)"
    )
    parser.set_defaults(command=commands.inventory)


def _bench(parser: argparse.ArgumentParser) -> None:
    _devices_option(parser)
    _output_option(parser)
    known = ", ".join(kernels.names())
    add = parser.add_argument
    add("-k", "--kernel", action="append", required=True, help=f"[APP=]NAME[@CLASS][:ARGUMENT]; NAME: {known}")
    add("--rounds", type=_WHOLE, default=_BENCH.rounds, help="timed runs per kernel and GPU (default %(default)s)")
    add("--scope", choices=("gpu", "node", "both"), default="both", help="GPUs alone, all at once, or both (default)")
    add("--warm", type=_NUM, default=_BENCH.warm_s, metavar="S", help="warm-up before each run (default %(default)g)")
    add("--run", type=_SOME, default=_BENCH.run_s, metavar="S", help="length of a timed run (default %(default)g)")
    add("--cool-to", type=_NUM, default=_COOL.below_c, metavar="C", help="cool down to (default %(default)g)")
    add("--cool-wait", type=_NUM, default=_COOL.longest_s, metavar="S", help="at most so long (default %(default)g)")
    add("--sample", type=_SOME, default=_BENCH.sample_s, metavar="S", help="between samples (default %(default)g)")
    add("--patience", type=_SOME, default=_PATIENCE.run_s, metavar="S", help="for a late run (default %(default)g)")
    add("--most", type=_NUM, default=_BENCH.most_s, metavar="S", help="stop after that (default %(default)g)")
    parser.set_defaults(command=commands.bench)


def _reduce(parser: argparse.ArgumentParser) -> None:
    _output_option(parser)
    add = parser.add_argument
    add("--size", type=_WHOLE, action="append", metavar="MIB", help="of what is summed (default 1, 16, 64 and 256)")
    add("--rounds", type=_WHOLE, default=20, help="timed rounds per size (default %(default)s)")
    add("--rank", type=whole(least=0), default=None, metavar="N", help="this process, from 0 (default: as srun says)")
    add("--ranks", type=_WHOLE, default=None, metavar="M", help="how many there are (default: as srun says)")
    add("--master", default="", metavar="HOST:PORT", help="where they meet (default: the first node of the step)")
    add("--patience", type=_SOME, default=120.0, metavar="S", help="for the other ranks (default %(default)g)")
    parser.set_defaults(command=commands.all_reduce)


def _watch(parser: argparse.ArgumentParser) -> None:
    _devices_option(parser)
    add = parser.add_argument
    add("--spool", type=Path, required=True, metavar="DIR", help="where the jobs' files go; shared with the head")
    add("--job", default=None, metavar="ID", help="this job only, as in its own batch script or prolog")
    add("--interval", type=_SOME, default=10.0, metavar="S", help="between samples (default %(default)g)")
    add("--line", type=_SOME, default=60.0, metavar="S", help="of time in a line of the file (default %(default)g)")
    add("--part", type=_SOME, default=1800.0, metavar="S", help="of time in one part of a job (default %(default)g)")
    add("--socket", default=None, metavar="PATH", help="where jobs report steps (default /run/pal-probe/steps.sock)")
    add("words", nargs="*", metavar="-- COMMAND", help="with --job: run that command, and end with it")
    parser.set_defaults(command=commands.watch)


def _step(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seconds", type=_NUM, help="how long the steps took")
    parser.add_argument("--count", type=_WHOLE, default=1, help="how many steps that were (default 1)")
    parser.add_argument("--app", default=None, help="the application, where the job has several")
    parser.set_defaults(command=commands.step)


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=importers.names(), help="the tool that wrote the file")
    parser.add_argument("file", type=Path)
    help_inventory = "documents of `pal-probe inventory` that tell which GPUs the nodes have"
    parser.add_argument("--inventory", type=Path, action="append", default=[], metavar="FILE", help=help_inventory)
    parser.add_argument("--node", default="", help="the node's name, where the file does not tell")
    parser.add_argument("--measured-at", type=_NUM, default=None, metavar="EPOCH", help="where the file does not tell")
    _output_option(parser)
    parser.set_defaults(command=commands.bring_in, measured_at_default=time.time)


def _check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path)
    parser.set_defaults(command=commands.check)


def _kernels(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=commands.list_kernels)
