"""Nodes of several GPU models on several hosts: one variable makes them, pald and palwork go by them."""

from __future__ import annotations

import json
import os

import pytest

from tests.compose.hosts import Hosts, compose

MODELS = "v100=2,h100=2"
FAST = ("--gres=gpu:1", "--comment=app:resnet pal:dearer", "-t", "60")
BASES = ("--base-on", "v100=0.4", "--base-on", "h100=0.1")


def up(hosts: Hosts, models: str) -> None:
    compose(hosts.project, "up", "-d", "--wait", env={**os.environ, "MODELS": models})


def test_a_job_gets_the_model_on_which_it_is_fast_and_runs_as_fast_as_that(hosts: Hosts) -> None:
    kept = hosts.run("login", "cat", "/etc/pal-slurm/pal.yaml").stdout
    assert "models: [a100]" in kept
    told = "apps: {resnet: {class: A, base: {v100: 0.4, h100: 0.1}}}\n"
    try:
        up(hosts, MODELS)
        text = kept.replace("models: [a100]", "models: [v100, h100]") + told
        hosts.run("login", "sh", "-c", "cat >/etc/pal-slurm/pal.yaml", stdin=text)
        hosts.do("restart", "pald")
        hosts.wait_pald()
        assert hosts.run("login", "palctl", "config", "check").returncode == 0
        ran = []
        for want in ("", "v100"):
            output = f"/home/alice/model-{want}.out"
            options = (*FAST, *(("-C", want) if want else ()))
            job = hosts.submit(*options, wrap=f"palwork --app resnet --steps 4 {' '.join(BASES)}", output=output)
            hosts.wait_state(job, "COMPLETED", within=60)
            lines = hosts.run("login", "cat", output).stdout.splitlines()
            ran += [json.loads(line) for line in lines if line.startswith("{")][-1:]
        assert [one["node"] in ("n3", "n4") for one in ran] == [True, False]
        assert [one["true_step_time"] for one in ran] == pytest.approx([0.1, 0.4])
        assert "h100" in hosts.client("palctl", "apps", "--rates")
    finally:
        up(hosts, "")
        hosts.run("login", "sh", "-c", "cat >/etc/pal-slurm/pal.yaml", stdin=kept)
        hosts.do("restart", "pald")
        hosts.wait_pald()
