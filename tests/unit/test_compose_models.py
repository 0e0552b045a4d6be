"""What docker/configure makes of MODELS: nodes by GPU model, from the first on; what is no such list is refused."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

CONFIGURE = Path(__file__).parents[2] / "docker" / "configure"


@pytest.fixture(scope="module")
def configure() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("configure", str(CONFIGURE))
    spec = importlib.util.spec_from_loader("configure", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


@pytest.mark.parametrize(
    ("text", "nodes", "models"),
    [
        ("", 4, {"a100": 4}),
        ("v100=2,h100=2", 4, {"v100": 2, "h100": 2}),
        ("v100=2,h100=2", 5, {"v100": 2, "h100": 3}),
        ("v100=2,h100=2", 3, {"v100": 2, "h100": 1}),
        ("v100=4,h100=2", 3, {"v100": 3}),
        ("v100=0", 2, {"a100": 2}),
    ],
)
def test_every_node_has_a_model(configure: ModuleType, text: str, nodes: int, models: dict[str, int]) -> None:
    assert configure.models_of(text, nodes) == models
    conf = configure.slurm_conf(nodes, "c-", models).splitlines()
    features = [line.partition("Features=")[2].split(",")[0] for line in conf if "NodeAddr=" in line]
    assert features == [model for model, count in models.items() for _ in range(count)]
    assert f"models = {','.join(sorted(models))}" in configure.pal_lua_conf(models)


@pytest.mark.parametrize("text", ["v100", "v100=x", "v100=-1", "V100=1", "v100=1,v100=2", "a b=1", "v100=100"])
def test_a_list_that_is_none_is_refused_with_its_word(configure: ModuleType, text: str) -> None:
    with pytest.raises(SystemExit, match="is not MODEL=NODES"):
        configure.models_of(text, 4)
