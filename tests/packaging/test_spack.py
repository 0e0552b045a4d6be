"""Spack's recipe asks for what pyproject.toml asks for. Spack itself is not here; `spack audit` reads it too."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.packaging.root import PROJECT

RECIPE = PROJECT / "packaging/spack/repo/packages/pal-slurm/package.py"
# Only pip knows them by these names.
DRIVERS = {"psycopg[binary]": "psycopg"}
# What the wheel's extra adds to what is there anyway, and what a site builds by itself.
ELSEWHERE = {"torch", "dev", "docs"}


def directives(name: str) -> Iterator[tuple[str, dict[str, object]]]:
    """First argument and keywords of each call of that name, in the recipe's one class."""
    tree = ast.parse(RECIPE.read_text(encoding="utf-8"))
    [recipe] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert (recipe.name, [ast.unparse(base) for base in recipe.bases]) == ("PalSlurm", ["PythonPackage"])
    for node in ast.walk(recipe):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            first = ast.literal_eval(node.args[0])
            yield first, {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}


def wanted(requirement: str) -> str:
    """`numpy>=1.26` as Spack writes it: `py-numpy@1.26`, whole versions without their zeros."""
    found = re.fullmatch(r"([A-Za-z0-9._\[\]-]+)>=([0-9.]+)", requirement)
    assert found, requirement
    version = re.sub(r"(\.0)+$", "", found[2])
    return f"py-{DRIVERS.get(found[1], found[1]).lower()}@{version}:"


def test_the_recipe_asks_for_what_pip_asks_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {(first, str(words.get("when", ""))) for first, words in directives("depends_on")}
    needs = {(wanted(need), "") for need in project["dependencies"]}
    for extra, more in project["optional-dependencies"].items():
        if extra not in ELSEWHERE:
            needs |= {(wanted(need), f"+{extra}") for need in more} - {
                (name, f"+{extra}") for name, when in needs if not when
            }
    python = {first for first, _ in asked if first.startswith("python@")}
    assert {one for one in asked if one[0].startswith("py-")} - {("py-hatchling@1.25:", "")} == needs
    assert python == {project["requires-python"].replace(">=", "python@") + ":"}


def test_its_variants_are_the_extras_and_the_plugin() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {first for first, _ in directives("variant")} == set(extras) - ELSEWHERE | {"spank"}
