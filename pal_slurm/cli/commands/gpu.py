"""palctl gpu. In: a UUID or NODE:SLOT. Out: the life of that card: where it sat, its nights, scores, alerts, jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, pass_palctl
from pal_slurm.cli.periods import DAY_S, first_night, moment
from pal_slurm.cli.screen import coloured
from pal_slurm.cli.shades import how_drawn, score_paint

if TYPE_CHECKING:
    from pal_slurm.report.card import CardLife, Counts
    from pal_slurm.report.text import Row

_JOBS = 20  # that are listed
_JOBS_S = 30 * DAY_S
_BESIDE = 90  # columns of the kernels' table that are no picture


@click.command(name="gpu", short_help="The life of one card: places, nights, scores, alerts, jobs.")
@click.argument("card", metavar="UUID|NODE:SLOT")
@click.option("--at", default="", metavar="WHEN", help="Who sat in NODE:SLOT then: 2026-10-01T14:00, or 30d ago.")
@click.option(
    "--since", default="14d", show_default=True, metavar="WHEN", help="The nights that are listed one by one."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with every night.")
@pass_palctl
def command(palctl: Palctl, card: str, at: str, since: str, as_json: bool) -> None:
    """The life of one card, by its UUID (or how that begins) or by where it sits: n3:1.

    What is told goes with the card wherever it sat. --since is about the list of nights; pictures and scores are of
    all nights.
    """
    from pal_slurm.cli.card_name import find_card
    from pal_slurm.report.card import card_of, plain
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.store.cards import CardRepo

    now = time.time()
    first = first_night("--since", since, now)
    identity = find_card(CardRepo(palctl.store), card, moment("--at", at, now) if at else None)
    life = card_of(palctl.store, identity, now - _JOBS_S)
    counts = _counts(palctl, life, now)
    if as_json:
        click.echo(to_json(plain(life, counts, now)))
    else:
        _tell(life, counts, first, now)


def _tell(life: CardLife, counts: Mapping[str, Counts], first: int, now: float) -> None:
    from pal_slurm.report import card as told

    for sentence in told.sentences(life, counts, now):
        click.echo(sentence)
    _section("Where it sat", told.place_rows(life), told.PLACE_FIELDS)
    _section("Kernels, over all nights", told.kernel_rows(life, how_drawn(1, _BESIDE)), told.KERNEL_FIELDS)
    listed = [night for night in life.nights if night.night >= first]
    older = len(life.nights) - len(listed)
    title = "Night by night" + (f" ({older} older rows: --since 1y)" if older else "")
    _section(title, told.night_rows(listed, life.stays), told.NIGHT_FIELDS)
    _section("Alerts", told.alert_rows(life), told.ALERT_FIELDS)
    jobs = told.job_rows(life)
    more = f", the newest {_JOBS} of {len(jobs)}" if len(jobs) > _JOBS else ""
    _section(f"Jobs of the last 30 days{more}", jobs[:_JOBS], told.JOB_FIELDS)


def _section(title: str, rows: Sequence[Row], fields: Sequence[str]) -> None:
    from pal_slurm.report.text import table

    if not rows:
        return
    click.echo(f"\n{click.style(title, bold=True)}")
    for line in table(rows, fields, score_paint(("ratio",)) if coloured() else None):
        click.echo(f"  {line}")


def _counts(palctl: Palctl, life: CardLife, now: float) -> dict[str, Counts]:
    """What pald makes of its scores; of a card that sits nowhere, nothing."""
    from pal_slurm.report.card import Counts
    from pal_slurm.report.scores import outlier_rows
    from pal_slurm.store import ScoreRepo

    if (place := life.place) is None:
        return {}
    _, cluster, table = palctl.placed()
    named = outlier_rows(ScoreRepo(palctl.store).placed(), table.classes, now)
    outlying = {row["class"] for row in named if row["uuid"] == life.identity.uuid}
    at = (cluster.node_index[place.node], place.slot)
    return {
        cls: Counts(
            int(table.bins[(c, *at)]), int(table.bins[c].max()) + 1, bool(table.known[(c, *at)]), cls in outlying
        )
        for c, cls in enumerate(table.classes)
    }
