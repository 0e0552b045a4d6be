"""Slurm's words stay in its room: everybody else compares facts that were made of them once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pal_slurm
from pal_slurm.model import Waits
from pal_slurm.slurm.reasons import WORDS, why

HOUSE = Path(pal_slurm.__file__).parent
# Traces are sacct's own output, sim/slurm answers as a slurmctld does, slots writes gres.conf, doctor reads slurm.conf.
SPEAKS = ("slurm", "sim/traces", "sim/slurm", "slots", "doctor")
GRES = re.compile(r"\bgres[:/]gpu:|\bTresPer|ReqNodeList")


@pytest.mark.parametrize(
    ("word", "fact"),
    [
        ("", Waits.UNSEEN),
        ("None", Waits.UNSEEN),
        ("BeginTime", Waits.BEGIN),
        ("Priority", Waits.TURN),
        ("Resources", Waits.ROOM),
        ("ReqNodeNotAvail", Waits.NODES),
        ("BadConstraints", Waits.NEVER),
        ("PartitionNodeLimit", Waits.NEVER),
        ("PartitionDown", Waits.BLOCKED),
        ("QOSMaxGRESPerUser", Waits.OWN_LIMIT),
        ("MaxGRESRunMinsPerUser", Waits.OWN_LIMIT),
        ("MaxGRESPerAccount", Waits.THEIR_LIMIT),
        ("MaxJobsPerAccount", Waits.THEIR_LIMIT),
        ("MaxMemoryPerAccount", Waits.THEIR_LIMIT),
        ("MaxCpuRunMinsPerAccount", Waits.THEIR_LIMIT),
        ("MaxMemPerLimit", Waits.LIMIT),
        ("AssocGrpGRES", Waits.THEIR_LIMIT),
        ("QOSGrpCPUMinutesLimit", Waits.THEIR_LIMIT),
        ("AssocMaxJobsLimit", Waits.OWN_LIMIT),
        ("QOSMaxJobsPerUserLimit", Waits.OWN_LIMIT),
        ("QOSMaxNodePerAccount", Waits.THEIR_LIMIT),
        ("QOSMaxGRESPerJob", Waits.LIMIT),
        ("AssocMaxWallDurationPerJobLimit", Waits.LIMIT),
        ("QOSNotAllowed", Waits.LIMIT),
        ("AccountNotAllowed", Waits.LIMIT),
        ("JobHeldUser", Waits.HELD),
        ("JobHeldAdmin", Waits.HELD),
        ("DependencyNeverSatisfied", Waits.BLOCKED),
        ("JobArrayTaskLimit", Waits.BLOCKED),
        ("BurstBufferResources", Waits.OTHER),
    ],
)
def test_why_a_job_waits(word: str, fact: Waits) -> None:
    assert why(word) is fact


def texts(file: Path) -> Iterator[str]:
    """All texts that are no documentation."""
    tree = ast.parse(file.read_text())
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_no_other_room_knows_slurms_words() -> None:
    reasons = re.compile(f"({'|'.join(WORDS)})[A-Z]?[A-Za-z]*")
    files = [file for file in HOUSE.rglob("*.py") if not file.relative_to(HOUSE).as_posix().startswith(SPEAKS)]
    found = [
        f"{file.relative_to(HOUSE)}: {text!r}"
        for file in files
        for text in texts(file)
        if (reasons.fullmatch(text) and not hasattr(pal_slurm.model, text)) or GRES.search(text)
    ]
    assert found == []
