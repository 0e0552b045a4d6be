"""The sample file and `explain` are written off the schema, so they can't be out of date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pal_slurm.config import Config, check, explain, load, sample
from pal_slurm.config.keys import Key, all_keys

SAMPLE = Path(__file__).parents[2] / "etc" / "pal.yaml"
KEYS = list(all_keys())


def test_the_shipped_sample_is_what_the_schema_says() -> None:
    assert SAMPLE.read_text() == sample(), "run: palctl config sample > etc/pal.yaml"


def test_the_sample_as_it_is_means_the_defaults() -> None:
    assert load(SAMPLE) == Config()


def test_the_sample_with_every_key_uncommented_is_good(tmp_path: Path) -> None:
    path = tmp_path / "pal.yaml"
    lines = [line for line in sample().splitlines() if not re.match(r"\s*##|# [p`]", line)]
    path.write_text("\n".join(re.sub(r"^(\s*)# ", r"\1", line) for line in lines) + "\n")
    assert check(path) == []
    config = load(path)
    assert config.apps["resnet50"].comm.cluster == 1.3
    assert {k: v for k, v in vars_of(config).items() if k != "apps"} == {
        k: v for k, v in vars_of(Config()).items() if k != "apps"
    }


def vars_of(config: Config) -> dict[str, object]:
    return {name: getattr(config, name) for name in config.__struct_fields__}


@pytest.mark.parametrize("key", KEYS, ids=[k.path for k in KEYS])
def test_every_key_says_why_it_exists_and_can_be_explained(key: Key) -> None:
    told = explain(key.path.replace("NAME", "resnet50"))
    assert told is not None
    assert len(key.why) > 10 or key.path == "apps.NAME.class"
    if key.path.endswith("_s"):
        assert "unit: " in told


def test_an_unknown_key_has_no_explanation() -> None:
    assert explain("lease.lenght") is None
