"""Pictures as coordinates. In: figures. Out: points, bars and ticks in the units of an SVG's viewBox.

A picture is as wide as a phone's column, so that its letters stay readable there; templates turn it into SVG.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil, floor

from pal_slurm.report.figures import AppPoint, Histogram, NightCount, OwnScore, Trend, Worst
from pal_slurm.report.heat import level

LEFT, RIGHT, TOP = 40.0, 332.0, 12.0
ALERT = 0.05  # a night this far off the nights before raises an alert
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_LETTER = 5.6  # width of a letter of a label, about


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    look: str
    title: str


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    bottom: float
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    boxes: tuple[Box, ...] = ()
    points: tuple[Point, ...] = ()
    line: str = ""  # points of a polyline

    @property
    def height(self) -> float:
        return self.bottom + (24 if self.x_ticks else 6)


@dataclass(frozen=True, slots=True)
class Dot:
    """An application on the plane, its doubt, and where its name may stand (0: there is no room)."""

    x: float
    y: float
    dx: float
    dy: float
    app: AppPoint
    label_x: float
    label_y: float
    anchor: str


def r(value: float) -> float:
    return round(value, 1)


def scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    return lambda value: r(first + (value - low) / (high - low) * (last - first))


def steps(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two others."""
    step = next((s for s in _STEPS if (high - low) / s <= most), _STEPS[-1])
    return [round(n * step, 4) for n in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def histogram(h: Histogram) -> Chart:
    bottom, low, high = 150.0, h.bars[0].low, h.bars[-1].high
    most = max(bar.gpus for bar in h.bars)
    x, y = scale(low, high, LEFT, RIGHT), scale(0, most, bottom, TOP)
    boxes = tuple(
        Box(
            x(bar.low), r(min(y(bar.gpus), bottom - 2)), r(max(x(bar.high) - x(bar.low) - 0.4, 0.6)),
            r(bottom - min(y(bar.gpus), bottom - 2)), f"h{level((bar.low + bar.high) / 2)}",
            f"{bar.low:.3f} to {bar.high:.3f}: {bar.gpus} GPUs",
        )
        for bar in h.bars
        if bar.gpus
    )  # fmt: skip
    half = most // 2
    return Chart(
        f"Class {h.cls}: how many GPUs have which score",
        bottom,
        tuple(Tick(x(v), f"{v:.2f}".rstrip("0").ljust(3, "0")) for v in steps(low, high, 6)),
        tuple(Tick(y(v), f"{v:,}") for v in sorted({0, half, most})),
        boxes,
    )


def trend(t: Trend) -> Chart:
    bottom = 112.0
    days = [date.fromisoformat(n.night).toordinal() for n in t.nights]
    most = max(0.07, 1.2 * max(abs(n.level - 1) for n in t.nights))
    x = scale(days[0], max(days[-1], days[0] + 1), LEFT + 8, RIGHT - 8)
    y = scale(1 - most, 1 + most, bottom, TOP)
    points = tuple(
        Point(
            x(d), y(n.level), f"{n.night}: {n.level:.1%} of usual, {n.gpus} GPUs, {n.stalls} of {n.runs} runs stalled"
        )
        for d, n in zip(days, t.nights, strict=True)
    )
    return Chart(
        f"{t.app or 'class ' + t.cls} on {t.model or 'GPUs'}: time of the median GPU, night by night",
        bottom,
        _ends(x, [(d, n.night) for d, n in zip(days, t.nights, strict=True)]),
        tuple(Tick(y(1 + v), f"{v:+.0%}" if v else "usual") for v in _levels(most)),
        (Box(LEFT, y(1 + ALERT), RIGHT - LEFT, r(y(1 - ALERT) - y(1 + ALERT)), "band", ""),),
        points,
        " ".join(f"{p.x},{p.y}" for p in points),
    )


def _levels(most: float) -> tuple[float, ...]:
    step = next((s for s in (0.05, 0.1, 0.2, 0.5, 1.0) if most / s < 3), 2.0)
    return tuple(n * step for n in (-2, -1, 0, 1, 2) if abs(n * step) <= most)


def _ends(x: Callable[[float], float], days: Sequence[tuple[int, str]]) -> tuple[Tick, ...]:
    return tuple(Tick(x(d), text) for d, text in dict([days[0], days[-1]]).items())


def by_night(counts: Sequence[NightCount], gpus: int) -> Chart | None:
    """How many GPUs were measured; a night without a bar measured none."""
    if not counts:
        return None
    bottom = 112.0
    days = [date.fromisoformat(n.night).toordinal() for n in counts]
    width = min(24.0, (RIGHT - LEFT - 4) / (days[-1] - days[0] + 1))
    most = max(gpus, *(n.gpus for n in counts))
    y = scale(0, most, bottom, TOP)

    def x(d: float) -> float:
        return r(LEFT + 2 + (d - days[0]) * width)

    boxes = tuple(
        Box(x(d), y(n.gpus), r(width * 0.8), r(bottom - y(n.gpus)), "fresh", f"{n.night}: {n.gpus} of {gpus} GPUs")
        for d, n in zip(days, counts, strict=True)
    )
    ends = _ends(lambda d: x(d) + width / 2, [(d, n.night) for d, n in zip(days, counts, strict=True)])
    if len(ends) > 1 and ends[-1].at - ends[0].at < 80:
        ends = ends[-1:]
    ticks = tuple(Tick(y(v), f"{v:,}") for v in (0, gpus))
    return Chart("GPUs measured, night by night", bottom, ends, ticks, boxes)


@dataclass(frozen=True, slots=True)
class IntervalBar:
    low: float
    at: float
    high: float
    ticks: tuple[Tick, ...]


def interval(worst: Worst, most: float) -> IntervalBar:
    """A score and its interval on an axis that all of the worst share."""
    x = scale(0.9, max(1.4, most * 1.02), 6.0, 294.0)
    marks = [v for v in (1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0) if v <= max(1.4, most)]
    ticks: list[Tick] = []
    for v in marks:
        if not ticks or x(v) - ticks[-1].at > 26:
            ticks.append(Tick(x(v), f"{v:g}" if v != 1 else "1.0"))
    low, high = (worst.score if v is None else v for v in (worst.low, worst.high))
    return IntervalBar(x(max(low, 0.9)), x(worst.score), min(x(high), 300.0), tuple(ticks))


def history(nights: Sequence[OwnScore]) -> Chart | None:
    """A card's own nights; one alone is no line."""
    if len(nights) < 2:
        return None
    days = [date.fromisoformat(n.night).toordinal() for n in nights]
    low, high = min(0.98, *(n.score for n in nights)), max(1.1, *(n.score for n in nights))
    x, y = scale(days[0], days[-1], LEFT, 292.0), scale(low, high, 44.0, 6.0)
    points = tuple(Point(x(d), y(n.score), f"{n.night}: {n.score:.3f}") for d, n in zip(days, nights, strict=True))
    ticks = tuple(Tick(y(v), f"{v:.2f}") for v in (1.0, high))
    line = " ".join(f"{p.x},{p.y}" for p in points)
    return Chart("Its own score, night by night", 44.0, (), ticks, (), points, line)


def plane(apps: Sequence[AppPoint]) -> list[Dot]:
    """Applications whose utilisation is known; names stand where none is in the way."""
    x, y = scale(0, 1, LEFT, RIGHT), scale(0, 1, 300.0, TOP)
    taken: list[tuple[float, float, float, float]] = []
    dots: list[Dot] = []
    known = [(app, app.compute, app.memory) for app in apps if app.compute is not None and app.memory is not None]
    spots = [(x(min(max(c, 0.0), 1.0)), y(min(max(m, 0.0), 1.0)), app) for app, c, m in known]
    taken += [(px - 5, py - 5, px + 5, py + 5) for px, py, _ in spots]
    unit = RIGHT - LEFT
    for px, py, app in sorted(spots, key=lambda spot: -spot[2].jobs):
        label_x, label_y, anchor = _room(px, py, len(app.app) * _LETTER, taken)
        dx, dy = (r(min(1.0, 2 * (e or 0.0)) * unit) for e in (app.compute_error, app.memory_error))
        dots.append(Dot(px, py, dx, dy, app, label_x, label_y, anchor))
    return dots


def _room(
    px: float, py: float, width: float, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float, str]:
    """Right, left, above or below of a point, inside of the picture, over nothing that is there already."""
    for x, y, anchor in (
        (px + 8, py + 4, "start"), (px - 8, py + 4, "end"), (px, py - 9, "middle"), (px, py + 17, "middle"),
    ):  # fmt: skip
        left = x - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
        box = (left, y - 9, left + width, y + 3)
        inside = box[0] >= LEFT and box[2] <= RIGHT + 6 and box[1] >= 4 and box[3] <= 298
        if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            taken.append(box)
            return r(x), r(y), anchor
    return 0.0, 0.0, ""
