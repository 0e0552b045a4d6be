"""Whether a job may be moved, as real users write it: the option, the comment, the mark, and how pald reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pal_slurm.model import Consent, Given
from pal_slurm.slurm.commands.backend import CliSlurm
from tests.slurm.minicluster import Minicluster
from tests.slurm.tagged import Tagged


@pytest.fixture(scope="module")
def cluster(release: str) -> Iterator[Minicluster]:
    own = Minicluster.up(f"t{os.getpid()}-consent-{release}", release, "--nodes", "4")
    yield own
    own.down()


@pytest.fixture
def tagged(cluster: Minicluster) -> Iterator[Tagged]:
    cluster.reset()
    cluster_with_words = Tagged(cluster)
    cluster_with_words.settings(slots="no", models="")
    yield cluster_with_words


def consent(tagged: Tagged, job: int) -> Consent:
    return CliSlurm(tagged.cluster.bin).jobs([job])[job].consent


def test_the_option_is_a_word_of_the_comment_in_every_client_and_in_the_script(tagged: Tagged) -> None:
    assert tagged.comment(tagged.submit("--pal-move", "--gpus=1")) == "pal:move"
    assert tagged.comment(tagged.submit("--pal-move=120", "--comment=mine")) == "mine pal:move=120"
    both = tagged.submit("--pal-app=resnet", "--pal-move=B:USR1@60", "--comment=pal:move=5 mine")
    assert tagged.comment(both) == "pal:move=B:USR1@60 mine app:resnet"
    words = tagged.comment(tagged.submit("--pal-same", "--pal-dearer", "--comment=mine", "--gpus=1"))
    assert sorted(words.split()) == ["mine", "pal:dearer", "pal:same"]
    script = "#!/bin/sh\n#SBATCH --pal-move=SIGUSR2@30\n#SBATCH --gpus=1\ntrue\n"
    job = tagged.submit(script=script)
    assert tagged.comment(job) == "pal:move=SIGUSR2@30"
    assert consent(tagged, job) == Consent(Given.ASKED, None, "USR2", False, 30)
    assert tagged.mark(job)["m"] == "1"
    assert tagged.comment(tagged.submit(script="#!/bin/sh\n#SBATCH --pal-move\ntrue\n")) == "pal:move"
    tagged.settings(lease="1", slots="no", models="")
    look = ["sh", "-c", 'scontrol show job "$SLURM_JOB_ID"']
    for client in ("srun", "salloc"):
        assert "Comment=pal:move" in tagged.said(client, "--pal-move", "--gres=gpu:1", *look)


@pytest.mark.parametrize("option", ["--pal-move", "--pal-move=60", "--pal-move=B:USR1@60!"])
def test_a_script_that_was_submitted_with_the_option_may_use_srun(tagged: Tagged, option: str) -> None:
    """srun inherits the option by its environment, where one without a value reads (null)."""
    tagged.settings(lease="1", slots="no", models="")
    job = tagged.submit(option, "--gpus=1", script="#!/bin/sh\nsrun true\n")
    tagged.cluster.wait_state(job, "COMPLETED")


WRONG = {
    "": "takes nothing", "0": "costs 1 to 86400", "-1": "costs 1 to 86400", "1e9": "costs 1 to 86400",
    "KILL@5": "is USR1 or USR2", "USR1@0": "1 to 3600", "USR1": "takes nothing", "\u0663\u0660": "takes nothing",
    "USR1@60; id": "1 to 3600", "a\nb": "takes nothing", "\x1b[31m": "takes nothing", "9" * 10_000: "takes nothing",
}  # fmt: skip


@pytest.mark.parametrize("value", WRONG, ids=range(len(WRONG)))
def test_a_wrong_value_fails_at_submit_with_a_sentence_and_leaves_nothing(tagged: Tagged, value: str) -> None:
    for client, command in (("sbatch", "--wrap=true"), ("srun", "true"), ("salloc", "true")):
        run = tagged.run(client, f"--pal-move={value}", command)
        assert run.returncode != 0, client
        ours = [line for line in run.stderr.splitlines() if "pal: --pal-move" in line]
        assert len(ours) == 1 and WRONG[value] in ours[0], run.stderr
        assert ours[0].isprintable()
    assert tagged.said("squeue", "-h") == ""


def test_a_forged_value_that_passes_the_plugin_costs_the_job_its_consent_alone(tagged: Tagged) -> None:
    forged = "_SLURM_SPANK_OPTION_pal_pal_move=KILL@5"
    job = tagged.submit("--gpus=1", f"--export=ALL,{forged}", "--comment=mine")
    assert tagged.comment(job) == "mine"
    assert consent(tagged, job) == Consent()


def test_a_comment_that_its_user_changes_later_counts_as_it_is(tagged: Tagged) -> None:
    job = tagged.submit("--gpus=1", "--comment=mine pal:move=60")
    assert consent(tagged, job) == Consent(Given.ASKED, 60)
    for comment, given in (
        ("mine", Given.TAKEN_BACK),
        ("mine pal:move", Given.ASKED),
        ("mine pal:move pal:stay", Given.STAY),
        ("pal:move=-1", Given.UNREAD),
    ):
        tagged.said("scontrol", "update", f"JobId={job}", f"Comment={comment}")
        assert consent(tagged, job).given is given, comment


def test_what_was_said_of_requeues_is_kept_in_the_mark(tagged: Tagged) -> None:
    said = {("--requeue",): "1", ("--no-requeue",): "0", (): None}
    for options, value in said.items():
        assert tagged.mark(tagged.submit("--gpus=1", *options)).get("q") == value
    assert tagged.mark(tagged.submit(script="#!/bin/sh\n#SBATCH --requeue\n#SBATCH --gpus=1\ntrue\n"))["q"] == "1"
    job = tagged.submit("--gpus=1", "--no-requeue", "--comment=pal:move")
    tagged.said("scontrol", "update", f"JobId={job}", "Requeue=1")
    assert consent(tagged, job).given is Given.NO_REQUEUE
