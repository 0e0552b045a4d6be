"""Applications by patterns: job name, script, unknown tags; a user's own tag wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.config import Config, load
from pal_slurm.errors import ConfigError
from pal_slurm.learning.patterns import Patterns
from pal_slurm.model import Hint, read_hint
from tests.builders import snapshot, waiting
from tests.unit.test_nightly_run import Room

PAL = """
apps: {resnet50: {class: A}}
patterns:
  - {app: resnet50, tag: 'resnet*'}
  - {app: gpt, script: '*/train_gpt*'}
  - {app: dlrm, job_name: 'rec-*', script: '*.sh'}
  - {app: resnet50, job_name: 'res?et*'}
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "pal.yaml"
    path.write_text(PAL)
    return load(path)


def app_of(config: Config, comment: str = "", name: str = "", command: str = "") -> str | None:
    view = snapshot(waiting(hint=read_hint(comment), name=name, command=command))
    return Patterns(config.patterns).tagged(view, config.known_apps().known).pending[0].hint.app


def test_a_jobs_name_and_script_tell_its_application(config: Config) -> None:
    assert app_of(config, name="resnet-batch64") == "resnet50"
    assert app_of(config, command="/home/u/train_gpt2.py --layers 4") == "gpt"
    assert app_of(config, name="rec-7", command="/home/u/run.sh") == "dlrm"


def test_all_that_a_pattern_names_must_fit(config: Config) -> None:
    assert app_of(config, name="rec-7") is None
    assert app_of(config, name="other", command="/home/u/run.sh") is None
    assert app_of(config, command="/home/u/run.py /x/train_gpt2.py") is None  # an argument is no script


def test_a_users_own_tag_wins(config: Config) -> None:
    assert app_of(config, comment="app:bert", name="resnet-batch64") == "bert"
    assert app_of(config, comment="app:resnet50", command="/home/u/train_gpt2.py") == "resnet50"


def test_a_tag_that_nobody_described_may_be_of_a_family(config: Config) -> None:
    assert app_of(config, comment="app:resnet101") == "resnet50"


def test_hands_off_stays_and_a_broken_comment_stays_without_a_hint(config: Config) -> None:
    view = snapshot(waiting(hint=Hint(off=True), name="resnet"))
    assert Patterns(config.patterns).tagged(view, ()).pending[0].hint == Hint("resnet50", off=True, guessed=True)
    assert app_of(config, comment="app:\x1b[31m", name="resnet") is None


def test_case_counts_and_hostile_names_match_nothing_by_accident(config: Config) -> None:
    assert app_of(config, name="RESNET-1") is None
    assert app_of(config, name="[!a]*") is None
    assert app_of(config, name="\x1b]0;resnet") is None


def test_no_patterns_leave_the_snapshot_as_it_is() -> None:
    view = Room().snapshot()
    assert Patterns(()).tagged(view, ()) is view


def test_a_pattern_that_fits_everything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pal.yaml"
    path.write_text("patterns:\n  - {app: x}\n")
    with pytest.raises(ConfigError, match="fits every job"):
        load(path)
