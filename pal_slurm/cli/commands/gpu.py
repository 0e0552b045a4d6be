"""palctl gpu. In: a UUID or NODE:SLOT. Out: the life of that card: where it sat, its nights, scores, alerts, jobs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, pass_palctl
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
@click.option(
    "-o",
    "--output",
    "fields",
    default="",
    metavar="FIELDS",
    help="Only these tables and columns, by comma, as jobs or nights.ratio; `help` lists them.",
)
@pass_palctl
def command(palctl: Palctl, card: str, at: str, since: str, as_json: bool, fields: str) -> None:
    """The life of one card, by its UUID (or how that begins) or by where it sits: n3:1.

    What is told goes with the card wherever it sat. --since is about the list of nights; pictures and scores are of
    all nights.
    """
    from pal_slurm.cli.card_name import find_card
    from pal_slurm.report.card import TABLES, card_of, plain, sentences
    from pal_slurm.report.text import as_json as to_json
    from pal_slurm.store.cards import CardRepo

    known = [name for table, columns in TABLES.items() for name in (table, *(f"{table}.{c}" for c in columns))]
    shown = choose(fields, known, tuple(TABLES))
    if fields and as_json:
        raise click.UsageError("--json tells everything: leave out -o or --json")
    now = time.time()
    first = first_night("--since", since, now)
    identity = find_card(CardRepo(palctl.store), card, moment("--at", at, now) if at else None)
    life = card_of(palctl.store, identity, now - _JOBS_S)
    counts = _counts(palctl, life, now)
    if as_json:
        click.echo(to_json(plain(life, counts, now)))
    else:
        _tell(life, () if fields else sentences(life, counts, now), shown, first)


def _tell(life: CardLife, said: Iterable[str], shown: Sequence[str], first: int) -> None:
    from pal_slurm.report import card as told

    gap = ""  # before a table that comes first
    for sentence in said:
        click.echo(sentence)
        gap = "\n"
    listed = [night for night in life.nights if night.night >= first]
    older = len(life.nights) - len(listed)
    jobs = told.job_rows(life)
    more = f", the newest {_JOBS} of {len(jobs)}" if len(jobs) > _JOBS else ""
    tables = {
        "places": ("Where it sat", told.place_rows(life)),
        "kernels": ("Kernels, over all nights", told.kernel_rows(life, how_drawn(1, _BESIDE))),
        "nights": (
            "Night by night" + (f" ({older} older rows: --since 1y)" if older else ""),
            told.night_rows(listed, life.stays),
        ),
        "alerts": ("Alerts", told.alert_rows(life)),
        "jobs": (f"Jobs of the last 30 days{more}", jobs[:_JOBS]),
    }
    for name, columns in told.TABLES.items():
        named = [field.removeprefix(f"{name}.") for field in shown if field.startswith(f"{name}.")]
        if named or name in shown:
            gap = _section(*tables[name], named or columns, gap) or gap


def _section(title: str, rows: Sequence[Row], fields: Sequence[str], gap: str) -> str:
    """The gap before the next one; empty: nothing was printed."""
    from pal_slurm.report.text import table

    if not rows:
        return ""
    click.echo(f"{gap}{click.style(title, bold=True)}")
    for line in table(rows, fields, score_paint(("ratio",)) if coloured() else None):
        click.echo(f"  {line}")
    return "\n"


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
