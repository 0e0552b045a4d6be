"""What docs/moves.md shows on a mini-cluster: its commands run as they stand there, and say what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, steps

PAGE = PROJECT / "docs" / "moves.md"


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_the_page_shows_a_move_one_that_was_asked_for_and_one_that_was_undone(release: str) -> None:
    script = "".join(block.text for block, _ in steps(PAGE, "play-moves"))
    script = script.replace("26.05", release).replace("--name moves", f"--name shown{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="pal-play-") as home:
        Path(home).chmod(0o755)
        env = {**os.environ, "PAL_MINICLUSTER_HOME": home}
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script], cwd=PROJECT, env=env,
                capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
        finally:
            tool = PROJECT / "scripts" / "minicluster"
            subprocess.run([tool, "down", "--all"], env=env, capture_output=True, timeout=60, check=False)
    said = done.stdout
    print(said)
    assert done.returncode == 0, said + done.stderr
    assert "no other GPUs are worth its move" in said and "better-gpus" in said
    assert "Nothing is moved: actuator is shadow" in said
    assert re.findall(r"Nodes=(n[23]) .*IDX:1.*IDX:3", said) == ["n2", "n3"]
    resumed = [int(step) for step in re.findall(r'"what": "resumed", "step": ([0-9]+)', said)]
    assert len(resumed) == 2 and min(resumed) >= 40
    assert "asked to save by SIGUSR1" in said and said.count("It runs there;") == 2
    assert re.search(r"JobState=RUNNING[^\n]*\n[^\n]*Restarts=1", said)
