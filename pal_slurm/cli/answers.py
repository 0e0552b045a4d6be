"""What `--json` prints, as types. In: nothing. Out: a type per command, and the JSON Schema made of it.

`VERSION` rises when a field goes or means another thing; a new field does not raise it, so readers pass over what they
do not know. Tests hold each output against its type, with nothing unknown in it. What -o may leave out is unset.
What is printed as it is (status, why, report) has no type of its own here: a copy would be out of date.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from pal_slurm.cli.answer_parts import (
    CardAlertShown,
    CardJobShown,
    CardScoreShown,
    EditMade,
    Epoch,
    Figure,
    KernelShown,
    LinkedShown,
    Maybe,
    Moment,
    PlaceShown,
    ScoreRow,
    SetupShown,
    Shown,
    SwitchShown,
    Text,
    Told,
    Whole,
)
from pal_slurm.daemon.status import Status
from pal_slurm.intake.spool import TakenFile
from pal_slurm.model import Move, NotBegun
from pal_slurm.report.figures import Fleet
from pal_slurm.sim.gain_report import GainReport
from pal_slurm.store import JobOutcome, Why

VERSION = 1


class AlertShown(Shown):
    when: Annotated[Text, Meta(description="Local time; UTC with --utc")] = UNSET
    kind: Text = UNSET
    said: Text = UNSET


class AppShown(Shown):
    app: Text = UNSET
    cls: Text = msgspec.field(default=UNSET, name="class")
    source: Text = UNSET
    jobs: Whole = UNSET
    sure: Figure = UNSET
    compute: Figure = UNSET
    memory: Figure = UNSET
    noise: Figure = UNSET
    base: Annotated[dict[str, float] | UnsetType, Meta(description="Seconds per step by model")] = UNSET
    comm: Annotated[dict[str, float] | UnsetType, Meta(description="Cost of distance by tier")] = UNSET
    measured_base: dict[str, float] | UnsetType = UNSET
    node: Figure = UNSET
    unlinked: Figure = UNSET
    rack: Figure = UNSET
    cluster: Figure = UNSET
    comm_source: Annotated[Text, Meta(description="Who says what distance costs; none: nobody")] = UNSET
    apart: Annotated[Figure, Meta(description="Step time on several nodes over that on one, as its jobs show")] = UNSET
    apart_doubt: Figure = UNSET
    apart_jobs: Whole = UNSET
    model: Annotated[Text, Meta(description="With --rates: a GPU model")] = UNSET
    rate: Annotated[Figure, Meta(description="Speed on its median GPU, over that on the best model")] = UNSET
    doubt: Annotated[Figure, Meta(description="How far off the rate may be, as a share")] = UNSET
    seconds: Annotated[Figure, Meta(description="Per step, as plans count it; null: nothing is known")] = UNSET
    beside: Annotated[Text, Meta(description="With --pairs: the application that has the same GPUs")] = UNSET
    gpus: Annotated[Whole, Meta(description="Of each of the two")] = UNSET
    factor: Annotated[Figure, Meta(description="Step time beside it over that alone; null: they do not fit")] = UNSET


class FaultShown(Shown):
    line: Annotated[int, Meta(description="0: of the file as a whole")]
    key: str
    message: str
    file: str


class FindingShown(Shown):
    level: Text = UNSET
    said: Text = UNSET


class AdviceShown(Shown):
    check: str
    health: Annotated[str, Meta(description="ok, mend or note")]
    said: str
    add: Annotated[str, Meta(description="The very line, or the command")]
    where: str
    then: str


class DoctorShown(Shown):
    ready: bool
    mended: list[str]
    lines: list[AdviceShown]


class DatabaseShown(Shown):
    database: str
    schema: str
    faults: list[str]
    rows: dict[str, int]


class ForgottenShown(Shown):
    table: Text = UNSET
    what: Text = UNSET
    older_than_days: Figure = UNSET
    rows: Whole = UNSET


class VacuumShown(Shown):
    database: str
    dry_run: bool
    removed: list[ForgottenShown]
    given_back_bytes: int | UnsetType | None = UNSET
    free_bytes: int | UnsetType | None = UNSET


class GainedShown(Shown):
    cls: Text = msgspec.field(default=UNSET, name="class")
    jobs: Whole = UNSET
    gpus: Whole = UNSET
    better: Whole = UNSET
    same: Whole = UNSET
    worse: Whole = UNSET
    median_gain: Figure = UNSET
    mean_gain: Figure = UNSET
    gpu_hours: Figure = UNSET
    gpu_hours_saved: Figure = UNSET


class JobShown(Shown):
    job: Whole = UNSET
    task: Whole = UNSET
    user: Maybe = UNSET
    name: Maybe = UNSET
    state: Annotated[Maybe, Meta(description="pending, running, ended; gone: it left the queue without a start")] = (
        UNSET
    )
    app: Maybe = UNSET
    cls: Maybe = msgspec.field(default=UNSET, name="class")
    gpus: Whole = UNSET
    action: Maybe = UNSET
    reason: Maybe = UNSET
    where: Maybe = UNSET
    step_time: Figure = UNSET
    slurm_step_time: Figure = UNSET
    gain: Annotated[Figure, Meta(description="0.2: a step takes 20 % longer where Slurm would have put the job")] = (
        UNSET
    )
    moves: Maybe = UNSET
    beside: Annotated[Whole, Meta(description="The job on whose GPU it was put")] = UNSET
    beside_cost: Annotated[Figure, Meta(description="0.2: a step takes it 20 % longer there than alone")] = UNSET
    beside_gain: Annotated[Figure, Meta(description="What both do more than one, in jobs alone")] = UNSET
    beside_gpu_s: Annotated[Figure, Meta(description="GPU seconds that this has won, once both have ended")] = UNSET
    as_pinned: bool | UnsetType | None = UNSET
    start: Moment = UNSET
    end: Moment = UNSET
    submit: Moment = UNSET
    decided_at: Moment = UNSET
    actuator: Maybe = UNSET
    expected_start: Annotated[Moment, Meta(description="null: it does not wait, or nobody can tell")] = UNSET
    expected_start_early: Moment = UNSET
    expected_start_late: Annotated[Moment, Meta(description="Between these two with nine chances of ten")] = UNSET
    forecast_at: Moment = UNSET


class MoveShown(Shown):
    """Of what happened, or with --what-if of a running job: each has fields of its own."""

    job: Whole = UNSET
    user: Maybe = UNSET
    app: Maybe = UNSET
    gpus: Whole = UNSET
    began: Text = UNSET
    ending: Text = UNSET
    from_: Text = msgspec.field(default=UNSET, name="from")
    to: Maybe = UNSET
    dead_s: Annotated[Figure, Meta(description="Between its two runs")] = UNSET
    cost_s: Annotated[Figure, Meta(description="Reckoned before")] = UNSET
    real_cost_s: Annotated[Figure, Meta(description="Measured after")] = UNSET
    gain_s: Figure = UNSET
    real_gain_s: Figure = UNSET
    partner: Whole = UNSET
    makes_room_for: Whole = UNSET
    signal: Maybe = UNSET
    said: Maybe = UNSET
    began_at: Moment = UNSET
    ended_at: Moment = UNSET
    moves: Text = UNSET
    action: Text = UNSET
    where: Maybe = UNSET
    step_time: Figure = UNSET
    why: Text = UNSET


class CardShown(Shown):
    uuid: str
    model: str | None
    serial: str | None
    first_seen: Epoch | None
    last_seen: Epoch | None
    driver: str | None
    power_cap_w: float | None
    setups: list[SetupShown]
    places: list[PlaceShown]
    scores: list[CardScoreShown]
    kernels: list[KernelShown]
    alerts: list[CardAlertShown]
    jobs: list[CardJobShown]


class IngestShown(Shown):
    files: list[TakenFile]
    nights: int
    scores: int
    alerts: list[str]
    learned: int
    heard: int


class TopologyShown(Shown):
    levels: int
    switches: list[SwitchShown]
    linked: list[LinkedShown]
    faults: list[str]


class WhyShown(Shown):
    decisions: list[Why]
    edits: list[EditMade]
    outcomes: list[JobOutcome]
    refused: list[NotBegun]
    moves: list[Move]
    expected_start: Annotated[Moment, Meta(description="null: it does not wait, or nobody can tell")] = UNSET
    expected_start_early: Moment = UNSET
    expected_start_late: Annotated[Moment, Meta(description="Between these two with nine chances of ten")] = UNSET
    forecast_at: Moment = UNSET


ANSWERS: dict[str, Any] = {
    "alerts": list[AlertShown],
    "apps": list[AppShown],
    "apps list": list[AppShown],
    "config check": list[FaultShown],
    "config show": Annotated[Told, Meta(description="The keys of pal.yaml; palctl config explain KEY tells each")],
    "db check": DatabaseShown,
    "db vacuum": VacuumShown,
    "doctor": DoctorShown,
    "gain": Annotated[GainReport, Meta(description="The figures of the page, docs/simulator.md")],
    "gained": list[GainedShown],
    "gpu": CardShown,
    "ingest": IngestShown,
    "jobs": list[JobShown],
    "moves": list[MoveShown],
    "profile run": Annotated[Told, Meta(description="Nodes by what became of them, and counts")],
    "report": Annotated[Fleet, Meta(description="The figures of the page, docs/report.md")],
    "scores": Annotated[list[ScoreRow], Meta(description="One object per row; -o help lists its fields")],
    "slots check": list[FindingShown],
    "status": Status,
    "topology": TopologyShown,
    "why": WhyShown,
}


def schema(command: str) -> dict[str, Any]:
    """JSON Schema, draft 2020-12."""
    made = msgspec.json.schema(ANSWERS[command])
    name = f"pal-slurm/{VERSION}/{command.replace(' ', '-')}"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:{name}", "title": name, **made}
