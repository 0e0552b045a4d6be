"""palctl undo: give jobs their original request back. Works with pald dead and its database gone."""

from __future__ import annotations

import sys
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.numbers import Number, Whole
from pal_slurm.cli.say import say
from pal_slurm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pal_slurm.config.read import Mistake
    from pal_slurm.model import Job, Snapshot


@click.command(name="undo", short_help="Give jobs back to Slurm as they were submitted.")
@click.argument("job", type=Whole(1), required=False)
@click.option("--all", "everything", is_flag=True, help="Every lease and every pin in the queue.")
@click.option(
    "--if-dead",
    "dead_s",
    type=Number(0),
    metavar="SECONDS",
    help="Only when pald has given no sign of life for so long: what the dead man's timer runs.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be undone, and change nothing.")
@pass_palctl
def command(ctl: Palctl, job: int | None, everything: bool, dead_s: float | None, dry_run: bool) -> None:
    """Take our hands off JOB, or with --all off every job: leases end, pins go, the original request is back.

    A running pald would lease or pin again what its policy wants; `palctl pause` first.
    """
    if (job is None) == (not everything):
        raise click.UsageError("name a job, or say --all")
    from pal_slurm.daemon.undo import between_runs, fences, one, ours, undo
    from pal_slurm.model import Outcome

    mistakes = _settled(ctl)
    if dead_s is not None and not _dead(ctl, dead_s, mistakes):
        return
    with ctl.slurm() as slurm:
        snapshot, theirs = _as_users_said(ctl, slurm.snapshot())
        closed = fences(snapshot, job)
        jobs = ours(snapshot, theirs) if job is None else one(snapshot, job, theirs, fenced=bool(closed))
        if dry_run:
            _say_what_would_be(jobs, closed)
            return
        for found in between_runs(snapshot) if everything else []:
            say(f"job {found.id} was just requeued, and starts by itself, half a minute later at most")
        results = undo(slurm, jobs, snapshot.taken, theirs)
        if closed:
            slurm.lift(closed)
            click.echo(f"{len(closed)} reservations of moves are ended")
    fine = sum(r.outcome in (Outcome.DONE, Outcome.STARTED, Outcome.GONE) for r in results)
    for r in results:
        if r.outcome is Outcome.PARTIAL:
            say(f"job {r.edit.job}: free to start anywhere; not all of its request could be restored: {r.said}")
        elif r.outcome in (Outcome.REFUSED, Outcome.UNKNOWN):
            say(f"job {r.edit.job}: not undone: {r.said}", err=True)
    if results or not closed:
        click.echo(f"{fine} of {len(results)} jobs are as they were" if results else "nothing of ours is in the queue")
    if any(r.outcome in (Outcome.REFUSED, Outcome.UNKNOWN) for r in results):
        sys.exit(75)


def _settled(ctl: Palctl) -> list[Mistake]:
    """P1: a pal.yaml that pald refuses to start with is one more reason to give jobs back."""
    mistakes = ctl.take_what_is_right()
    for mistake in mistakes:
        say(f"palctl: {mistake}", err=True)
    if mistakes:
        click.echo("palctl: goes on with what is right in it, and defaults for the rest", err=True)
    return mistakes


def _dead(ctl: Palctl, dead_s: float, mistakes: Sequence[Mistake]) -> bool:
    """Whether pald has been silent for so long; said, where it has not."""
    from pal_slurm.daemon.undo import seconds_dead

    told = ctl.config.cycle.alive_file
    silent = seconds_dead(Path(told), time.time()) if told else inf
    if silent < dead_s:
        click.echo(f"pald gave a sign of life {silent:.0f} s ago: nothing to do")
        return False
    doubtful = any(not m.key or m.key.startswith("cycle") for m in mistakes)
    if not told or (doubtful and silent == inf):  # a pald that was started before may live, and give its signs there
        raise ConfigError("where pald gives its signs of life is not known (cycle.alive_file): nothing is undone")
    return True


def _say_what_would_be(jobs: Sequence[Job], closed: Sequence[int]) -> None:
    for found in jobs:
        where = f" (pinned to {found.required_nodes})" if found.required_nodes else ""
        say(f"would undo job {found.id}{where}")
    for number in closed:
        say(f"would end the reservation around the move of job {number}")
    if not (jobs or closed):
        click.echo("nothing of ours is in the queue")


def _as_users_said(ctl: Palctl, snapshot: Snapshot) -> tuple[Snapshot, frozenset[int]]:
    """Begin times that are their users' own, and who waits on nodes of his user's choice: the ledger tells both.

    Without it only begin times that no lease ever has are told, and each node list beside our mark counts as a pin.
    """
    from pal_slurm.daemon.entries import Entries
    from pal_slurm.daemon.leases.begins import beyond_a_lease, told
    from pal_slurm.daemon.past import Past
    from pal_slurm.errors import PalError
    from pal_slurm.store import Ledger

    try:
        ledger = Ledger(ctl.store, ctl.cluster)
        entries = Entries(ledger.since(snapshot.taken))
        return told(snapshot, entries, ledger), Past(ledger, entries).users_nodes(snapshot)
    except PalError:
        return beyond_a_lease(snapshot), frozenset()
