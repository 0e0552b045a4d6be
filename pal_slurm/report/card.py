"""The life of one card. In: the store, its bins and whether it is an outlier. Out: sentences, tables, plain records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np

from pal_slurm.report.history import Look, day
from pal_slurm.report.spark import sparklines
from pal_slurm.report.text import Row, Value, age_days, clock, shown
from pal_slurm.scores.drift import drift
from pal_slurm.store import GpuRepo, Stay, Store
from pal_slurm.store.cards import CardJob, CardNight, CardRepo, CardScore, Identity
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.words import digits

STAND_IN = "at-"  # how an import without UUIDs names what sits in a slot
NODE_PART = 0.01  # what a node adds that is worth a sentence
LEARNED = 0.005  # and what jobs changed


@dataclass(frozen=True, slots=True)
class Counts:
    """What pald makes of a score now."""

    bin: int
    bins: int
    known: bool  # false: too old or absurd, so it counts as 1.0
    outlier: bool


@dataclass(frozen=True, slots=True)
class CardSetup:
    """Driver and power cap, and the nights in which they were seen."""

    driver: str | None
    power_cap_w: float | None
    first: int
    last: int

    def __str__(self) -> str:
        cap = f"power cap {self.power_cap_w:g} W" if self.power_cap_w else "power cap not told"
        return f"driver {shown(self.driver) if self.driver else 'not told'}, {cap}"


@dataclass(frozen=True, slots=True)
class CardLife:
    identity: Identity
    stays: tuple[Stay, ...]
    nights: tuple[CardNight, ...]
    scores: tuple[CardScore, ...]
    alerts: tuple[Alert, ...]
    jobs: tuple[CardJob, ...]

    @property
    def place(self) -> Stay | None:
        return next((stay for stay in self.stays if stay.until is None), None)


def card_of(store: Store, identity: Identity, jobs_since: float) -> CardLife:
    repo, stays = CardRepo(store), GpuRepo(store).life(identity.uuid)
    alerts = [a for a in NightRepo(store).alerts() if _about(a, identity.uuid)]
    return CardLife(
        identity, tuple(stays), tuple(repo.nights(identity.uuid)), tuple(repo.scores(identity)), tuple(alerts),
        tuple(repo.jobs(stays, jobs_since)),
    )  # fmt: skip


def _about(alert: Alert, uuid: str) -> bool:
    return uuid in alert.key.split(":") or f"({uuid})" in alert.said


def setups(nights: Sequence[CardNight]) -> list[CardSetup]:
    """In order of time; the same again after another is a new one."""
    found = []
    by_night = sorted({(n.night, n.setup) for n in nights})
    for setup, same in groupby(by_night, key=lambda pair: pair[1]):
        when = [night for night, _ in same]
        driver, _, cap = setup.rpartition("|")
        watts = float(cap) if digits(cap.replace(".", "", 1)) else 0.0
        found.append(CardSetup(driver or None, watts or None, when[0], when[-1]))
    return found


# Sentences -----------------------------------------------------------------------------------------------------------


def sentences(card: CardLife, counts: Mapping[str, Counts], now: float) -> Iterator[str]:
    who, place = card.identity, card.place
    model = shown(who.model) if who.model else "a card whose model nobody told"
    if place is not None:
        where = f"sits in {shown(place.node)}:{place.slot} since {clock(place.since)}"
    elif card.stays:
        last = max(card.stays, key=lambda stay: stay.until or 0.0)
        where = f"sits nowhere; until {clock(last.until)} it sat in {shown(last.node)}:{last.slot}"
    else:
        where = "was never seen in a slot"
    serial = f", serial number {shown(who.serial)}" if who.serial else ""
    yield f"{shown(who.uuid)}: {model}{serial}; it {where}."
    if who.uuid.startswith(STAND_IN):
        yield "It stands for a slot whose card has not named itself yet, and gives way to the card that does."
    last_seen = f"last seen {clock(who.last_seen)}" if who.last_seen else "never seen in a slot"
    yield f"First heard of {clock(who.first_seen)}, {last_seen}."
    if told := setups(card.nights):
        *before, latest = told
        since = f", since the night of {day(latest.first)}; before that:" if before else "."
        yield f"It runs with {latest}{since}"
        for old in reversed(before):
            yield f"  {day(old.first)} to {day(old.last)}: {old}."
    if not card.scores:
        yield "It has no score: it counts as the median GPU of its model until a night measures it."
    for score in card.scores:
        yield from _score(score, counts.get(score.cls), now)


def _score(s: CardScore, counts: Counts | None, now: float) -> Iterator[str]:
    percent = 100 * (s.score - 1)
    pace = "as fast as the median GPU of its model" if abs(percent) < 0.5 else (
        f"{abs(percent):.0f} % {'slower' if percent > 0 else 'faster'} than the median GPU of its model"
    )  # fmt: skip
    interval = "" if s.ci_low is None or s.ci_high is None else f" ({s.ci_low:.3f} to {s.ci_high:.3f})"
    yield f"Class {shown(s.cls)}: {s.score:.3f}{interval}, {pace}; {_evidence(s)}, {age(s.measured_at, now)}."
    if counts is not None and not counts.known:
        yield "  That is too old to count: until it is measured again it counts as 1.0."
    elif counts is not None:
        yield f"  For placement it is in bin {counts.bin} of 0 to {counts.bins - 1}."
    if counts is not None and counts.outlier:
        yield "  It is an outlier: surely slower than the bulk of its model, and by more than 30 %."
    heard = _times(s.jobs or 0, "stretch", "stretches")
    if s.profiled is not None and s.jobs and abs(s.score / s.profiled - 1) > LEARNED:
        yield f"  Its nights alone say {s.profiled:.3f}; {heard} of jobs since then moved it."
    elif s.profiled is not None and s.jobs:
        yield f"  {heard} of jobs since its last night did not move it."
    if s.asked is not None:
        yield f"  One user's jobs say {s.asked:.3f}: it waits for a witness, another user or its next night."
    if s.node_part is not None and abs(s.node_part - 1) > NODE_PART:
        yield f"  All GPUs of its node share a factor of {s.node_part:.3f} of that: it is partly the node."
    if s.stalls:
        node = f", {s.node_stalls} of them together with others of its node" if s.node_stalls else ""
        yield f"  {_times(s.stalls, 'run')} of {s.n_runs} stalled{node}; stalls are left out of the score" + (
            ", but here there are so many that they count." if s.intermittent else "."
        )


def _evidence(s: CardScore) -> str:
    if s.source == "jobs":
        return f"from {_times(s.jobs or 0, 'stretch', 'stretches')} of jobs alone"
    if s.nights is None:
        return f"imported ({_times(s.n_runs, 'run')})"
    return f"from {_times(s.n_runs, 'run')} in {_times(s.nights, 'night')}"


def _times(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or f'{one}s'}"


# Tables --------------------------------------------------------------------------------------------------------------

PLACE_FIELDS = ("node", "slot", "from", "until")
KERNEL_FIELDS = ("kernel", "class", "scope", "nights", "seconds", "ratio", "runs", "stalls", "drift", "sure", "trend")
NIGHT_FIELDS = ("night", "kernel", "class", "scope", "seconds", "ratio", "runs", "stalls", "where")
ALERT_FIELDS = ("when", "kind", "said")
JOB_FIELDS = ("job", "app", "where", "gpus", "start", "end", "predicted", "measured")
TABLES = {
    "places": PLACE_FIELDS, "kernels": KERNEL_FIELDS, "nights": NIGHT_FIELDS, "alerts": ALERT_FIELDS,
    "jobs": JOB_FIELDS,
}  # fmt: skip


def place_rows(card: CardLife) -> list[dict[str, Value]]:
    return [
        {"node": s.node, "slot": s.slot, "from": clock(s.since), "until": clock(s.until) if s.until else "now"}
        for s in card.stays
    ]


def kernel_rows(card: CardLife, look: Look) -> list[dict[str, Value]]:
    """One row per kernel over all its nights; seconds and ratio are medians."""
    rows: list[dict[str, Value]] = []
    for nights in _by_kernel(card.nights):
        ratio = _ratios(nights)
        moved = drift(ratio)
        seconds, known = [n.seconds for n in nights], ratio[np.isfinite(ratio)]
        change = float(moved.change[0])
        rows.append(
            {
                **_kernel(nights[0]), "nights": len(nights), "seconds": float(np.median(seconds)),
                "ratio": float(np.median(known)) if known.size else None, "runs": sum(n.runs for n in nights),
                "stalls": sum(n.stalls for n in nights), "drift": None if np.isnan(change) else round(change, 4),
                "sure": bool(moved.sure[0]), "trend": sparklines(ratio, look.blocks, look.width)[0],
            }
        )  # fmt: skip
    return rows


def _ratios(nights: Sequence[CardNight]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """(1, N) from the first of these nights to the last."""
    ratio = np.full((1, nights[-1].night - nights[0].night + 1), np.nan)
    for n in nights:
        ratio[0, n.night - nights[0].night] = n.score or np.nan
    return ratio


def night_rows(nights: Sequence[CardNight], stays: Sequence[Stay]) -> list[dict[str, Value]]:
    """One row per kernel and night, newest night first."""
    return [
        {
            "night": day(n.night), **_kernel(n), "seconds": n.seconds, "ratio": n.score, "runs": n.runs,
            "stalls": n.stalls, "where": _where(n, stays),
        }
        for n in sorted(nights, key=lambda n: -n.night)
    ]  # fmt: skip


def _where(n: CardNight, stays: Sequence[Stay]) -> str:
    """The node is what the night was told; the slot is where it sat there, if it sat in one only."""
    slots = {stay.slot for stay in stays if stay.node == n.node}
    return f"{n.node}:{slots.pop()}" if len(slots) == 1 else n.node


def _kernel(n: CardNight) -> dict[str, Value]:
    return {"kernel": n.app or f"class {n.cls}", "class": n.cls, "scope": n.scope}


def alert_rows(card: CardLife) -> list[dict[str, Value]]:
    return [{"when": clock(a.raised_at), "kind": a.kind, "said": a.said} for a in card.alerts]


def job_rows(card: CardLife) -> list[dict[str, Value]]:
    return [
        {
            "job": j.job, "app": j.app, "where": j.node, "gpus": j.gpus, "start": clock(j.start),
            "end": clock(j.end) if j.end else None, "predicted": j.predicted, "measured": j.measured,
        }
        for j in card.jobs
    ]  # fmt: skip


def plain(card: CardLife, counts: Mapping[str, Counts], now: float) -> dict[str, Value]:
    """For JSON: everything that is stored of it; times are epoch seconds, nights are dates."""
    who, told = card.identity, setups(card.nights)
    scores: list[Row] = []
    for s in card.scores:
        c = counts.get(s.cls)
        placed: Row = (
            {"bin": c.bin, "known": c.known, "outlier": c.outlier} if c else dict.fromkeys(("bin", "known", "outlier"))
        )
        scores.append(
            {
                "class": s.cls,
                **dict(zip(CardScore._fields[1:], s[1:], strict=True)),
                "age_days": age_days(s.measured_at, now),
                **placed,
            }
        )
    kernels = zip(kernel_rows(card, Look(blocks=False)), _by_kernel(card.nights), strict=True)
    return {
        "uuid": who.uuid, "model": who.model or None, "serial": who.serial,
        "first_seen": who.first_seen, "last_seen": who.last_seen or None,
        "driver": told[-1].driver if told else None, "power_cap_w": told[-1].power_cap_w if told else None,
        "setups": [
            {"driver": s.driver, "power_cap_w": s.power_cap_w, "first": day(s.first), "last": day(s.last)} for s in told
        ],
        "places": [{"node": s.node, "slot": s.slot, "since": s.since, "until": s.until} for s in card.stays],
        "scores": scores,
        "kernels": [
            {
                **{field: value for field, value in row.items() if field != "trend"},
                "history": [[day(n.night), n.seconds, n.score, n.runs, n.stalls, n.node] for n in nights],
            }
            for row, nights in kernels
        ],
        "alerts": [{"at": a.raised_at, "kind": a.kind, "said": a.said} for a in card.alerts],
        "jobs": [j._asdict() for j in card.jobs],
    }  # fmt: skip


def _by_kernel(nights: Sequence[CardNight]) -> list[list[CardNight]]:
    return [list(mine) for _, mine in groupby(nights, key=attrgetter("cls", "app", "scope"))]


def age(at: float, now: float) -> str:
    hours = max(0.0, now - at) / 3_600
    if hours < 1:
        return "less than an hour old"
    return f"{hours:.0f} h old" if hours < 48 else f"{hours / 24:.0f} days old"
