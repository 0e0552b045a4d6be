"""GPU models where devices are named by slot, with cli_filter.lua in the clients: also steps and allocations work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.slurm.minicluster import PROJECT, Minicluster

FORMS = [
    ["--gres=gpu:v100:2"],
    ["--gpus=v100:2"],
    ["--gpus-per-node=v100:2"],
    ["-n2", "--gpus-per-task=v100:1"],
    ["--gpus=v100:2", "-C", "rack1|a100"],
]
SHOW = ["sh", "-c", 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"']


@pytest.fixture(scope="module")
def filtered(release: str) -> Iterator[Minicluster]:
    options = ["--nodes", "4", "--models", "a100=2,v100=2", "--set", "CliFilterPlugins=cli_filter/lua"]
    cluster = Minicluster.up(f"t{os.getpid()}-filter-{release}", release, *options)
    shutil.copy(PROJECT / "spank" / "cli_filter.lua", cluster.etc)
    _settings(cluster)
    yield cluster
    cluster.down()


def _settings(cluster: Minicluster, text: str = "") -> None:
    """Without a lease, so that the clients need not wait."""
    (cluster.etc / "pal_lua.conf").write_text(text or "alive_file = /none\nslots = yes\nmodels = a100,v100\n")


def _devices(said: str) -> set[str]:
    """The devices that the tasks saw, all on nodes with a v100."""
    rows = [line.split() for line in said.splitlines()]
    assert rows
    assert {node for node, _ in rows} <= {"n3", "n4"}
    return {device for _, devices in rows for device in devices.split(",")}


@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_a_model_works_in_every_client_and_in_steps(filtered: Minicluster, options: list[str]) -> None:
    step = [option for option in options if "v100" in option or option == "-n2"]  # Slurm takes no such -C for a step
    for command in (["srun", *options], ["salloc", *options, "srun"], ["salloc", *options, "srun", *step]):
        assert len(_devices(filtered.client(command[0], "-Q", *command[1:], *SHOW))) == 2


def test_inherited_variables_no_longer_name_the_model(filtered: Minicluster) -> None:
    assert filtered.client("salloc", "-Q", "--gpus=v100:2", "sh", "-c", 'echo "$SLURM_GPUS"').strip() == "2"


def test_a_batch_job_is_submitted_without_types(filtered: Minicluster) -> None:
    filtered.reset()
    _settings(filtered, "lease = 500\nslots = yes\nmodels = a100,v100\n")
    fields = filtered.fields(filtered.submit("--gpus=v100:2", "-C", "rack1"))
    _settings(filtered)
    assert fields["Features"] == "rack1&v100"
    assert fields["TresPerJob"].endswith("gpu:2")
    assert fields["AdminComment"].startswith("pal1{")


def test_what_it_cannot_read_leaves_the_options_alone(filtered: Minicluster) -> None:
    script = filtered.etc / "job_submit.lua"
    hidden = script.rename(script.with_suffix(".away"))
    try:
        run = filtered.run("sbatch", "--gpus=1", "--wrap", "true")
    finally:
        hidden.rename(script)
    assert run.returncode == 0, run.stderr
    _settings(filtered, "slots = perhaps\n")
    assert filtered.client("srun", "-Q", "--gpus=1", *SHOW)
    _settings(filtered)
