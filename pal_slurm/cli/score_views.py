"""What `palctl scores` can show. In: a View: which classes, since when, how. Out: printed rows.

Racks, and GPUs that the database has never seen, are known to Slurm only: what needs them asks it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pal_slurm.cli.context import Palctl, choose, print_rows
from pal_slurm.cli.say import say
from pal_slurm.cli.shades import how_drawn, score_paint

if TYPE_CHECKING:
    from pal_slurm.model import Cluster
    from pal_slurm.report.history import HistoryColumns
    from pal_slurm.report.text import Value
    from pal_slurm.store import Stay

EMPTY = "no scores yet; import some with: palctl scores import FILE"
_BESIDE, _BESIDE_EACH = 24, 26  # columns of a line that are no picture: name, slot and model; those of a class


@dataclass(frozen=True, slots=True)
class ScoreView:
    palctl: Palctl
    classes: tuple[str, ...]
    since: int | None  # the first night of the history; None: without
    as_json: bool
    fields: str

    def pick(self, known: Sequence[str], of_history: Sequence[str], default: Sequence[str]) -> list[str]:
        """The columns to show; those of a history need a period."""
        every = [*known, *(of_history if self.since is not None else ())]
        if "node" in known:  # there `nodes` is what rows fold into
            every = [field for field in every if field != "nodes"]
        wanted = choose(
            self.fields,
            [*known, *of_history],
            [f for f in every if not f.endswith("trend")] if self.as_json else default,
        )
        if self.since is None and (early := [f for f in wanted if f in of_history]):
            raise click.UsageError(f"column {early[0]!r} tells of a period: add --since 30d")
        return wanted

    def told(self, pictures: int, group_of: Mapping[str, str] | None = None) -> HistoryColumns | None:
        """`pictures`: how many stand in one line; `group_of`: UUID -> whose history it is part of."""
        from pal_slurm.report.history import HistoryColumns, together
        from pal_slurm.store.history import HistoryRepo

        if self.since is None:
            return None
        history = HistoryRepo(self.palctl.store).fleet(self.classes, self.since)
        if group_of is not None:
            history = together(history, group_of)
        return HistoryColumns(history, how_drawn(pictures, _BESIDE + _BESIDE_EACH * pictures), self.as_json)

    def print(
        self, rows: Sequence[dict[str, Value]], columns: Sequence[str], scores: Sequence[str], empty: str
    ) -> None:
        """`nodes` among the columns: rows that differ in their node only become one."""
        from pal_slurm.report.text import folded

        if "nodes" in columns and rows and "nodes" not in rows[0]:
            rows = folded([{f: row[f] for f in ("node", *columns) if f != "nodes"} for row in rows])
        print_rows(rows, columns, as_json=self.as_json, empty=empty, paint=score_paint(scores))

    def by_class(self, parts: Sequence[str]) -> list[str]:
        """Columns side by side for each class, with those of the period."""
        from pal_slurm.report.history import SHOWN

        shown = (*parts, *(f".{part}" for part in SHOWN)) if self.since is not None else parts
        return [f"{cls}{part}" for cls in self.classes for part in shown]


def show_gpus(view: ScoreView, stale: bool, never: bool) -> None:
    """One row per GPU; `stale`, `never`: only those whose scores are too old, or that no night measured."""
    from pal_slurm.report.history import add_history, history_fields
    from pal_slurm.report.scores import gpu_fields, gpu_rows, unmeasured, waiting
    from pal_slurm.store import GpuRepo, ScoreRepo

    beside = ".age_days" if stale or never else ".bin"
    default = ["node", "slot", "model", *view.by_class(("",) if view.since is not None else ("", beside))]
    columns = view.pick(gpu_fields(view.classes), history_fields(view.classes), default)
    stays, now = GpuRepo(view.palctl.store).current(), time.time()
    stored = ScoreRepo(view.palctl.store).placed()
    if never:
        stays = sorted([*stays, *_never_seen(view.palctl, stays)], key=lambda stay: (stay.node, stay.slot))
    stays, cluster, table = view.palctl.placed(view.classes, stays)
    rows = gpu_rows(stays, stored, cluster, table, now)
    empty = EMPTY
    if stale or never:
        rows = [
            row for row in rows if (never and unmeasured(row, view.classes)) or (stale and _stale(row, view.classes))
        ]
        empty = "no such GPU: every score that there is counts" if stale else "no such GPU: each was measured"
    if told := view.told(len(view.classes)):
        add_history(rows, "uuid", view.classes, told)
    view.print(rows, columns, view.classes, empty)
    for sentence in () if view.as_json else waiting(stored, view.classes):
        click.echo(sentence, err=True)


def _stale(row: Mapping[str, Value], classes: Sequence[str]) -> bool:
    return any(row[cls] is not None and not row[f"{cls}.known"] for cls in classes)


def _never_seen(palctl: Palctl, stays: Sequence[Stay]) -> list[Stay]:
    """GPUs that Slurm tells of and no document or import ever named."""
    from pal_slurm.errors import SlurmError
    from pal_slurm.report.scores import places_of
    from pal_slurm.store import Stay

    try:
        cluster = _slurm_cluster(palctl)
    except SlurmError as error:
        say(f"palctl: GPUs that the database has never seen are not listed: {error}", err=True)
        return []
    seen = {(stay.node, stay.slot) for stay in stays}
    return [Stay("", model, *place, 0.0, None) for place, model in places_of(cluster).items() if place not in seen]


def _slurm_cluster(palctl: Palctl) -> Cluster:
    with palctl.slurm() as slurm:
        return slurm.snapshot().cluster


def show_groups(view: ScoreView, kind: str) -> None:
    """One row per node or rack."""
    from pal_slurm.report.groups import group_fields, group_rows
    from pal_slurm.report.history import add_history, history_fields

    worst = ("", ".worst") if kind == "node" else ("", ".worst", ".worst_at")
    default = [kind, "gpus", *(() if kind == "node" else ("nodes",)), *view.by_class(worst)]
    columns = view.pick(group_fields(kind, view.classes), history_fields(view.classes), default)
    stays, cluster, table = view.palctl.placed(view.classes)
    group_of = {stay.node: stay.node for stay in stays} if kind == "node" else _racks(view.palctl)
    rows = group_rows(stays, cluster, table, kind, group_of)
    if told := view.told(len(view.classes), {s.uuid: group_of[s.node] for s in stays if s.node in group_of}):
        add_history(rows, kind, view.classes, told)
    view.print(rows, columns, [f"{cls}{part}" for cls in view.classes for part in ("", ".worst")], EMPTY)


def _racks(palctl: Palctl) -> Mapping[str, str]:
    from pal_slurm.errors import SlurmUnavailable
    from pal_slurm.report.groups import rack_names

    try:
        cluster = _slurm_cluster(palctl)
    except SlurmUnavailable as error:
        raise SlurmUnavailable(
            f"only Slurm knows which node is in which rack; --per node does without. {error}"
        ) from error
    names = rack_names(cluster)
    if len(set(names.values())) < 2:
        click.echo(
            "palctl: Slurm tells of no racks, so all nodes count as one; name them by node features (rack1, rack2 ...) "
            "or by switches in topology.conf",
            err=True,
        )
    return names


def show_outliers(view: ScoreView) -> None:
    """GPUs that are surely slow, with the evidence."""
    from pal_slurm.report.history import PARTS, SHOWN
    from pal_slurm.report.scores import OUTLIER_FIELDS, outlier_rows
    from pal_slurm.store import ScoreRepo

    parts = [part for part in PARTS if part not in OUTLIER_FIELDS]  # nights and stalls stand there already
    default = [*OUTLIER_FIELDS, *(SHOWN if view.since is not None else ())]
    columns = view.pick(OUTLIER_FIELDS, parts, default)
    rows = outlier_rows(ScoreRepo(view.palctl.store).placed(), view.classes, time.time())
    if told := view.told(1):
        for row in rows:
            of_period = told.of(str(row["uuid"]), str(row["class"]))
            row.update({part: of_period[part] for part in parts})
    view.print(rows, columns, ("score", "ci_low", "ci_high"), "no outliers: no GPU is surely slower than 1.3")


def show_bins(view: ScoreView, by: str) -> None:
    """One row per class and bin."""
    from pal_slurm.report.scores import BIN_FIELDS, bin_rows, binned_otherwise
    from pal_slurm.store import ScoreRepo

    columns = view.pick(BIN_FIELDS, (), BIN_FIELDS)
    _, cluster, table = view.palctl.placed(view.classes)
    if by != "placement":
        table = binned_otherwise(table, ScoreRepo(view.palctl.store).placed(), cluster, by)
    view.print(bin_rows(cluster, table), columns, ("mean", "least", "most"), EMPTY)
