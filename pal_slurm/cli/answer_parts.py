"""Parts of what `--json` prints: records that stand inside others, and words for fields. In: nothing. Out: types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from pal_slurm.model import Decision, EditKind, Move, OperationKind, Outcome, Request

Told = dict[str, Any]  # keys and counts that a site names

Text = str | UnsetType
Maybe = str | None | UnsetType
Whole = int | None | UnsetType
Figure = float | None | UnsetType
Truth = bool | None | UnsetType
Epoch = Annotated[float, Meta(description="Seconds since 1970, UTC")]
Moment = Epoch | None | UnsetType
Night = Annotated[str, Meta(description="A date: the night that began on it")]


class Shown(Struct, forbid_unknown_fields=True):
    """One JSON object of an answer."""


class SetupShown(Shown):
    driver: str | None
    power_cap_w: float | None
    first: Night
    last: Night


class PlaceShown(Shown):
    node: str
    slot: int
    since: Epoch
    until: Annotated[Epoch | None, Meta(description="null: it sits there now")]


class CardScoreShown(Shown):
    cls: str = msgspec.field(name="class")
    score: Annotated[float, Meta(description="1.2: 20 % slower than the median GPU of its model")]
    ci_low: float | None
    ci_high: float | None
    measured_at: Epoch
    source: str
    n_runs: int
    nights: int | None
    stalls: int | None
    node_stalls: Annotated[int | None, Meta(description="Of those, together with others of its node")]
    node_part: Annotated[float | None, Meta(description="What all GPUs of its node share of it, a factor")]
    intermittent: bool | None
    profiled: Annotated[float | None, Meta(description="What its nights alone say")]
    jobs: Annotated[int | None, Meta(description="Stretches of jobs since its last night")]
    asked: Annotated[float | None, Meta(description="What one user's jobs say; it waits for a witness")]
    age_days: float
    bin: Annotated[int | None, Meta(description="null: it sits nowhere, and counts for nothing")]
    known: Annotated[bool | None, Meta(description="false: too old or absurd, it counts as 1.0")]
    outlier: bool | None


class KernelShown(Shown):
    kernel: str
    cls: str = msgspec.field(name="class")
    scope: str
    nights: int
    seconds: Annotated[float, Meta(description="The median of its nights")]
    ratio: Annotated[float | None, Meta(description="Over the median GPU of its model; the median of its nights")]
    runs: int
    stalls: int
    drift: Annotated[float | None, Meta(description="0.05: 5 % slower, from the first third of its nights to the last")]
    sure: bool
    history: Annotated[
        list[tuple[Night, float, float | None, int, int, str]],
        Meta(description="Each night: its date, seconds, ratio, runs, stalls, node"),
    ]


class CardAlertShown(Shown):
    at: Epoch
    kind: str
    said: str


class CardJobShown(Shown):
    cluster: str
    job: str
    app: str | None
    start: Epoch
    end: Epoch | None
    node: str
    gpus: Annotated[int | None, Meta(description="Of the whole job")]
    predicted: Annotated[float | None, Meta(description="Seconds per step")]
    measured: float | None


class EditShown(Shown):
    """One update of one job; what an edit of its kind does not set is not there."""

    kind: EditKind
    job: int
    task: int | None
    seen: None = None
    nodes: list[str] | UnsetType = UNSET
    slots: list[int] | UnsetType | None = UNSET
    partition: Maybe = UNSET
    original: Annotated[Request | UnsetType | None, Meta(description="What an undo has to restore")] = UNSET
    shard: Annotated[bool | UnsetType, Meta(description="It asks for a part of one GPU")] = UNSET
    until: Annotated[Whole, Meta(description="Where its lease, or the reservation, ends; seconds since 1970")] = UNSET
    own: Annotated[bool | UnsetType, Meta(description="That is its user's own begin time")] = UNSET
    between: bool | UnsetType = UNSET
    nice: Whole = UNSET
    signal: Text = UNSET
    to_script: bool | UnsetType = UNSET
    anew: Annotated[bool | UnsetType, Meta(description="Slurm reckons its priority anew from that nice")] = UNSET


class EditMade(Shown):
    """An edit as the ledger has it."""

    id: int
    submit: int
    edit: EditShown
    fence: Annotated[int, Meta(description="The leadership under which it was written")]
    written_at: Epoch
    outcome: Annotated[Outcome | None, Meta(description="null: nobody knows yet")]
    said: str
    cause: Annotated[str, Meta(description="Why it was made, where no decision tells")]
    outcome_at: Epoch | None
    decision: Decision | None
    passes_main: int
    passes_backfill: int
    closed: bool
    operation: int
    kind: OperationKind | None
    plan: list[EditKind]
    step: int
    move: Move | None


_TEXT, _MAYBE = {"type": "string"}, {"type": ["string", "null"]}
_WHOLE, _FIGURE, _TRUTH = ({"type": [kind, "null"]} for kind in ("integer", "number", "boolean"))
_NIGHTS = {
    "type": ["array", "null"],
    "description": "Each night: its date, ratio, runs, stalls",
    "items": {"type": "array"},
}
_OF_ROW: dict[str, Any] = {
    **dict.fromkeys(("node", "nodes", "rack", "uuid", "model", "where"), _MAYBE), "class": _TEXT,
    **dict.fromkeys(("slot", "gpus", "bin", "runs", "nights", "stalls"), _WHOLE),
    **dict.fromkeys(("score", "ci_low", "ci_high", "node_part", "age_days", "mean", "least", "most", "drift"), _FIGURE),
    "sure": _TRUTH, "trend": _MAYBE, "history": _NIGHTS,
}  # fmt: skip
_OF_CLASS = {
    "": {**_FIGURE, "description": "The score of that class, or of a node or rack the mean"},
    "bin|runs|nights|stalls": _WHOLE,
    "age_days|ci_low|ci_high|asked|worst|drift": _FIGURE,
    "known": {"type": ["boolean", "integer", "null"], "description": "Of a node or rack: how many of its scores count"},
    "sure": _TRUTH,
    "source|worst_at|trend": _MAYBE,
    "history": _NIGHTS,
}
_CLASS = "^[A-Z][A-Za-z0-9_-]{0,15}"  # classes.names of pal.yaml
ScoreRow = Annotated[
    dict[str, str | float | bool | list[list[str | float | None]] | None],
    Meta(
        extra_json_schema={
            "properties": _OF_ROW,
            "patternProperties": {
                rf"{_CLASS}\.({parts})$" if parts else f"{_CLASS}$": of for parts, of in _OF_CLASS.items()
            },
            "additionalProperties": False,
        }
    ),
]


class SwitchShown(Shown):
    name: Text = UNSET
    level: Annotated[Whole, Meta(description="0: the racks")] = UNSET
    nodes: list[str] | UnsetType = UNSET
    gpus: Whole = UNSET


class LinkedShown(Shown):
    nodes: list[str]
    groups: Annotated[list[list[int]], Meta(description="Slots of GPUs that are linked directly")]
