"""palctl moves. In: the ledger; with --what-if the queue. Out: what was or would be moved, what it cost and brought."""

from __future__ import annotations

import time

import click

from pal_slurm.cli.context import Palctl, choose, output_options, pass_palctl, print_rows
from pal_slurm.cli.periods import since_option
from pal_slurm.cli.say import say


@click.command(name="moves", short_help="Which running jobs were moved, what it cost and what it brought.")
@since_option("7d", "Moves begun since then")
@click.option(
    "--what-if", "what_if", is_flag=True, help="What would be moved now, and why nothing else; moves nothing."
)
@output_options
@pass_palctl
def command(palctl: Palctl, since: float, what_if: bool, as_json: bool, fields: str) -> None:
    """Which running jobs were moved, what it cost and what it brought, newest first.

    COST_S and GAIN_S were reckoned before the move, the REAL ones measured after it; DEAD_S lay between the two runs.
    --what-if asks planner and guard about the queue as it is, as if moves were switched on: also in shadow mode, and
    while no pald is at work.
    """
    if what_if:
        _what_if(palctl, as_json, fields)
        return
    from pal_slurm.daemon.moves.budget import WEEK_S, balance, losing, lost
    from pal_slurm.report.moves import DEFAULT, FIELDS, move_rows, summary
    from pal_slurm.store import MoveRepo

    columns = choose(fields, FIELDS, FIELDS if as_json else DEFAULT)
    repo, now = MoveRepo(palctl.store, palctl.cluster), time.time()
    moves = repo.since(since)
    print_rows(move_rows(moves), columns, as_json=as_json, empty="no running job was moved")
    if not as_json:
        costs = {move.operation: lost(move) for move in moves}
        for line in summary(moves, costs, balance(moves), losing(repo.since(now - WEEK_S))):
            say(line)


def _what_if(palctl: Palctl, as_json: bool, fields: str) -> None:
    from pal_slurm.daemon.build import assembled
    from pal_slurm.daemon.clock import SystemClock
    from pal_slurm.daemon.moves.what_if import what_if
    from pal_slurm.daemon.state import state_of
    from pal_slurm.report.what_if import DEFAULT, FIELDS, would_rows

    columns = choose(fields, FIELDS, FIELDS if as_json else DEFAULT)
    config = palctl.config
    with palctl.slurm() as slurm:
        setup = slurm.setup()
        state = state_of(config, SystemClock(), slurm, palctl.store, setup.cluster_name)
        sure = _proven(palctl, setup.cluster_name, state.clock.now())
        found = what_if(assembled(config, setup, state), sure)
    rows = would_rows([(one.job, one.decision, one.said) for one in found])
    print_rows(rows, columns, as_json=as_json, empty="no GPU job runs")
    if not as_json and not config.moves_jobs():
        moving = f", policy.moving {config.policy.moving}" if config.policy.moving else ""
        say(f"Nothing is moved: actuator is {config.actuator}, moves.mode {config.moves.mode}{moving} (pal.yaml).")


def _proven(palctl: Palctl, cluster: str, now: float) -> frozenset[tuple[str, str]]:
    """Whose jobs were seen to resume, where that counts."""
    if palctl.config.moves.mode != "proven":
        return frozenset()
    from pal_slurm.daemon.beside.resuming import accounts_of, proven
    from pal_slurm.daemon.connect import commands_of
    from pal_slurm.store import OutcomeRepo

    return proven(accounts_of(commands_of(palctl.config))(), OutcomeRepo(palctl.store, cluster), now)
