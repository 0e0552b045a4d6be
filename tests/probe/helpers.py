"""What the tests of pal-probe share. In: a temporary directory. Out: descriptions of devices, runs of the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pal_slurm.probe.document import Device, Document, Kernel, Telemetry, TimedRun, to_json

ROOT = Path(__file__).parents[2]
NOW = 1_790_000_000.0


def describe(path: Path, *devices: Mapping[str, object], node: str = "n1") -> str:
    """A description of fake devices, as an argument of --devices."""
    path.write_text(json.dumps({"node": node, "devices": list(devices)}))
    return f"fake:{path}"


def card(slot: int, **more: object) -> dict[str, object]:
    return {"uuid": f"GPU-{slot}", "slot": slot, "model": "a100", "speeds": {"A": 1.0, "B": 1.0}, **more}


def command(*words: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "pal_slurm.probe", *words]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "PAL_", "CUDA"))}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}


def probe(
    *words: str, env: Mapping[str, str] | None = None, python: str = sys.executable, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words, python=python), env=environment(env), cwd=cwd, capture_output=True, text=True, timeout=120
    )


def printed(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert result.stdout, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def faults_of(document: Mapping[str, Any]) -> Sequence[str]:
    return [fault["what"] for fault in document["faults"]]


def document(**changes: object) -> Document:
    fields: dict[str, Any] = {
        "kind": "bench",
        "made_by": "pal-probe test",
        "begun_at": NOW - 60,
        "ended_at": NOW,
        "devices": (
            Device("GPU-0", "n1", 0, "a100", "fake", power_cap_w=400.0),
            Device("GPU-1", "n1", 1, "a100", "fake"),
        ),
        "kernels": (Kernel("resnet", "resnet@A", "A"),),
        "runs": (
            TimedRun(
                "resnet",
                ("GPU-0",),
                "gpu",
                0.25,
                NOW - 30,
                telemetry=Telemetry(3, power_w=250.0, reasons={"idle": 0.5}),
            ),
            TimedRun("resnet", ("GPU-1",), "gpu", 0.26, NOW - 20),
        ),
    }
    return Document(**{**fields, **changes})


def as_json(**changes: object) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(to_json(document(**changes)))
    return fields
