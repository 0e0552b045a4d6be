"""The dashboard, the alert rules and the docs name figures that pald has, with labels that it gives them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pal_slurm.daemon.figures.metrics import Metrics
from pal_slurm.daemon.moves.budget import SumOfMoves
from pal_slurm.daemon.outcome import CycleReport

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "etc" / "prometheus" / "pal.rules.yml"
OPERATIONS = PROJECT / "docs" / "operations.md"


def samples() -> dict[str, set[str]]:
    """Name of every time series that pald gives, with its labels."""
    metrics = Metrics()
    report = CycleReport(read_s=0.1)
    report.edits[("pin", "done")] += 1
    report.refusals["gpu-taken"] += 1
    report.moved["moved"] += 1
    report.week = SumOfMoves(60.0, 600.0, stopped=False)
    metrics.observe(report)
    found: dict[str, set[str]] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def dashboard() -> list[str]:
    board = json.loads((PROJECT / "etc" / "grafana" / "pal.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


EXPRESSIONS = [*dashboard(), *(rule["expr"] for rule in rules())]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_what_pald_gives(expression: str) -> None:
    known = samples()
    names = re.findall(r"\bpal_\w+", expression)
    assert names
    assert [name for name in names if name not in known] == []
    for name, selector in re.findall(r"(pal_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)) <= known[name]
    by = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
    assert by <= set().union(*(known[name] for name in names))
    assert expression.count("(") == expression.count(")")


def test_every_figure_is_on_the_dashboard_and_in_the_docs() -> None:
    families = {family.name for family in Metrics().registry.collect()}
    boards, docs = " ".join(dashboard()), OPERATIONS.read_text()
    assert [name for name in families if name not in boards] == []
    assert [name for name in families if name not in docs] == []


def test_every_alert_stands_in_the_docs_with_what_to_do() -> None:
    docs = OPERATIONS.read_text()
    assert [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in docs] == []


def test_words_of_the_rules_are_words_of_the_code() -> None:
    words = {*re.findall(r"# ok, .*", (PROJECT / "pal_slurm/daemon/outcome.py").read_text())[0][2:].split(", ")}
    ends = {w for e in EXPRESSIONS for group in re.findall(r'end=~?"([^"]*)"', e) for w in group.split("|")}
    assert ends <= words


def test_promtool_finds_the_rules_right_and_they_fire_when_they_should(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    test = tmp_path / "test.yml"
    test.write_text((PROJECT / "tests/packaging/pal.rules.test.yml").read_text().replace("RULES", str(RULES)))
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(test)]):
        done = subprocess.run([promtool, *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
