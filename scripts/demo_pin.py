"""The demonstration of scripts/demo-pin. In: releases. Out: what was done and what Slurm itself says of it; exit 1 when
Slurm says otherwise."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence

from pal_slurm.model import Edit, EditResult, Outcome, Pin, Unpin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import backend_of
from tests.slurm.minicluster import RELEASES, Minicluster

NODE = "n2"
REQUEST = ("NumNodes", "ReqNodeList", "Partition", "TresPerNode", "TresPerJob", "TresPerTask")


class Failed(Exception):
    """Slurm says otherwise."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo-pin")
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=", ".join(RELEASES))
    parser.add_argument("--backend", choices=("cli", "pyslurm"), default="cli")
    options = parser.parse_args(argv)
    options.releases = options.releases or list(RELEASES)
    if unknown := set(options.releases) - set(RELEASES):
        parser.error(f"no such release: {', '.join(unknown)}; there are {', '.join(RELEASES)}")
    if options.backend == "pyslurm" and set(options.releases) != {"26.05"}:
        parser.error("pyslurm is there for 26.05 only: scripts/demo-pin --backend pyslurm 26.05")
    failed = 0
    for release in options.releases:
        print(f"== Slurm {release}, backend {options.backend}")
        cluster = Minicluster.up(f"demopin{os.getpid()}-{release}", release, "--nodes", "4", "--gpus", "4")
        try:
            with backend_of(cluster, options.backend) as slurm:
                demonstrate(cluster, slurm)
        except Failed as difference:
            print(f"   FAILED: {difference}")
            failed = 1
        finally:
            cluster.down()
    return failed


def demonstrate(cluster: Minicluster, slurm: Slurm) -> None:
    able = slurm.capabilities()
    print(f"   can: move a pin {yes(able.repin)}, restore an untyped request {yes(able.restore_untyped)}")
    cluster.drain(NODE)  # so that the pinned job has to wait, and can be moved
    job = cluster.submit("--pal-app=resnet", "--gres=gpu:2", "--begin=now+1hour", wrap="srun sleep 60")
    made = slurm.jobs([job])[job]
    untyped = request_of(cluster, job)
    say(f"job {job}, app {made.hint.app}, as submitted:", told(untyped))

    pinned(slurm, Pin(job, nodes=(NODE,), slots=(1, 3), original=made.request))
    say(f"pinned to {NODE}, slots 1 and 3:", told(request_of(cluster, job)))
    if able.repin:
        pinned(slurm, Pin(job, nodes=(NODE,), slots=(0, 2), original=made.request))
        say("moved to slots 0 and 2:", told(request_of(cluster, job)))
    later = int(time.time()) + 3600
    undone = apply(slurm, Unpin(job, until=later, original=made.request))
    now = request_of(cluster, job)
    say(f"un-pinned ({undone.outcome.value}):", told(now))
    if able.restore_untyped and now != untyped:
        raise Failed(f"the request is not what it was: {now} instead of {untyped}")
    if not able.restore_untyped:
        print(f"   {undone.said}")

    cluster.resume(NODE)
    pinned(slurm, Pin(job, nodes=(NODE,), slots=(1, 3), original=made.request))
    cluster.wait_state(job, "RUNNING")
    text = cluster.client("scontrol", "show", "job", "-d", str(job))
    lines = [line.strip() for line in text.splitlines() if "IDX:" in line]
    print(f"   runs; `scontrol show job -d {job}`:")
    print("\n".join(f"      {line}" for line in lines))
    if cluster.gpu_indices(job) != {NODE: "1,3"} and slurm.jobs([job])[job].gpus != ((1, 3),):
        raise Failed("it does not hold devices 1 and 3")
    print("   it holds devices 1 and 3: as asked")


def apply(slurm: Slurm, edit: Edit) -> EditResult:
    (result,) = slurm.apply([edit])
    return result


def pinned(slurm: Slurm, edit: Edit) -> None:
    result = apply(slurm, edit)
    if result.outcome is not Outcome.DONE:
        raise Failed(f"the pin is {result.outcome.value}: {result.said}")


def request_of(cluster: Minicluster, job: int) -> dict[str, str]:
    """What `scontrol show job` says of the request."""
    text = cluster.client("scontrol", "show", "job", str(job))
    found = {name: re.search(rf"\b{name}=(\S*)", text) for name in REQUEST}
    return {name: match[1] for name, match in found.items() if match and match[1] != "(null)"}


def told(request: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in request.items() if name != "Partition")


def say(what: str, request: str) -> None:
    print(f"   {what:<34} {request}")


def yes(able: bool) -> str:
    return "yes" if able else "no"


if __name__ == "__main__":
    sys.exit(main())
