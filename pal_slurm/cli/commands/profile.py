"""palctl profile run. In: pal.yaml, which nodes and when. Out: idle nodes measured through Slurm; scores; coverage."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeAlias

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.numbers import Number, Whole
from pal_slurm.cli.say import say
from pal_slurm.errors import BadInput, SlurmError, SlurmUnavailable

if TYPE_CHECKING:
    from pal_slurm.nightly.run import NightProgress, ProfileRun, Wanted
    from pal_slurm.report.text import Value

_PATIENCE_S = 300.0
Show: TypeAlias = "Callable[[NightProgress], None]"


@click.group(name="profile", short_help="Measure idle nodes through Slurm.")
def command() -> None:
    """Measure idle nodes through Slurm."""


@command.command(name="run")
@click.option("--nodes", default="", metavar="NODES", help="These nodes only, as n[1-8]; default: all with GPUs.")
@click.option("--max-parallel", type=Whole(1), help="Nodes at a time; default: profile.max_parallel.")
@click.option("--window", default="", metavar="HH:MM-HH:MM", help="Only in these hours; busy nodes are waited for.")
@click.option("--fresh", default=12.0, type=Number(0), metavar="HOURS", help="Skip nodes measured within (default 12).")
@click.option("--again", is_flag=True, help="Measure also what was measured just now.")
@click.option("--interval", default=2.0, type=Number(0.2, 60), hidden=True)
@click.option("--json", "as_json", is_flag=True, help="The coverage at the end, machine-readable.")
@pass_palctl
def run(
    palctl: Palctl, nodes: str, max_parallel: int | None, window: str, fresh: float, again: bool, interval: float,
    as_json: bool,
) -> None:  # fmt: skip
    """Measure nodes that nobody uses: one exclusive job each, at the end of the queue.

    A job that waits and could start in the place of one of ours gets the node at once. Without --window busy nodes are
    left out; with it they are waited for until it closes. Interrupted, it takes its jobs out of the queue; started
    again, it goes on where it stopped. Exit code 75: some nodes are not measured.
    """
    from pal_slurm.nightly.run import Wanted
    from pal_slurm.nightly.window import hours

    profile, now, named = palctl.config.profile, time.time(), _named(nodes)
    if not profile.spool or not Path(profile.spool).is_dir():
        raise BadInput(
            f"profile.spool: {profile.spool or 'not set in pal.yaml'}: a directory that nodes share is needed"
        )
    opened = hours(window).around(now) if window else None
    if window and opened is None:
        click.echo(f"it is {time.strftime('%H:%M')}, outside of {window}: nothing was done")
        return
    since = now if again else opened.opened if opened else now - fresh * 3600
    wanted = Wanted(named, max_parallel or profile.max_parallel, since, opened)
    progress = _run(palctl, wanted, interval, quiet=as_json)
    _report(progress, as_json)
    if len(progress.done) < progress.total:
        raise click.exceptions.Exit(75)


def _named(text: str) -> tuple[str, ...] | None:
    """The nodes of --nodes; None: all."""
    from pal_slurm.model.hostlist import unfold_hosts

    if not text:
        return None
    if not (names := unfold_hosts(text.strip())):
        raise BadInput(f"--nodes {text[:200]!r}: no list of nodes; write it as n[1-8] or n1,n2")
    return names


def _run(palctl: Palctl, wanted: Wanted, interval: float, quiet: bool) -> NightProgress:
    from pal_slurm.nightly.run import ProfileRun
    from pal_slurm.report.text import shown
    from pal_slurm.slurm.commands.batch import Batch
    from pal_slurm.slurm.commands.run import Commands

    bin_dir = Path(palctl.config.cluster.bin_dir) if palctl.config.cluster.bin_dir else None
    batch = Batch(Commands(bin_dir, palctl.config.cluster.timeout_s))

    def tell(said: str) -> None:
        click.echo(f"palctl: {shown(said)}", err=True)

    with palctl.slurm() as slurm:
        work = ProfileRun(
            slurm,
            batch,
            palctl.store,
            palctl.config,
            wanted,
            lambda said: click.echo(f"palctl: {shown(said)}", err=True),
        )
        signal.signal(signal.SIGTERM, _interrupted)
        try:
            with _bar(quiet) as show:
                return _until_finished(work, interval, show)
        except BaseException:
            with suppress(SlurmError):
                work.stop()
            raise


def _until_finished(work: ProfileRun, interval: float, show: Show) -> NightProgress:
    """Steps until it is over; slurmctld may be away for a few minutes."""
    answered = time.monotonic()
    while True:
        try:
            progress = work.step(time.time())
            answered = time.monotonic()
            show(progress)
            if progress.finished:
                return progress
        except SlurmUnavailable as error:
            if time.monotonic() - answered > _PATIENCE_S:
                raise
            say(f"palctl: {error}; trying again", err=True)
        time.sleep(interval)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """systemd ends us with SIGTERM: our jobs leave the queue as after Ctrl-C."""
    raise KeyboardInterrupt


@contextmanager
def _bar(quiet: bool) -> Iterator[Show]:
    """A bar on a terminal; elsewhere a line when something changed."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("nodes measured"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rest]}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, rest="")
        yield lambda p: bar.update(task, total=p.total, completed=len(p.done), rest=_rest(p))


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def show(self, progress: NightProgress) -> None:
        line = f"{len(progress.done)}/{progress.total} nodes measured, {_rest(progress)}"
        if line != self._last:
            click.echo(line, err=True)
            self._last = line


def _rest(p: NightProgress) -> str:
    counts = {"running": p.running, "busy": p.busy, "down": p.down, "failed": p.failed}
    return ", ".join(f"{len(nodes)} {name}" for name, nodes in counts.items() if nodes) or "nothing left"


def _report(p: NightProgress, as_json: bool) -> None:
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.report.text import fold

    if as_json:
        groups: dict[str, Value] = {"done": p.done, "busy": p.busy, "down": p.down, "failed": p.failed}
        counts: dict[str, Value] = {
            "total": p.total,
            "gave_way": p.gave_way,
            "scores": p.scores,
            "alerts": list(p.alerts),
        }
        click.echo(to_json(groups | counts))
        return
    share = len(p.done) / p.total if p.total else 1.0
    click.echo(f"{len(p.done)} of {p.total} nodes are measured ({share:.0%}); {p.scores} scores made anew")
    for name, nodes in (("busy", p.busy), ("down", p.down), ("failed", p.failed)):
        if nodes:
            click.echo(f"{name}: {fold(nodes)}")
    if p.gave_way:
        click.echo(f"gave way to waiting jobs: {p.gave_way} times")
    for said in p.alerts:
        say(f"ALERT {said}")
