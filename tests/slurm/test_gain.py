"""palctl gain on a real accounting database: sacct as that release writes it, users' tags, devices that were used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for

ODD = ("a|b", "new\nline", "\n7|8\n", "tab\tquote'\"", "unit\x1fseparator")
PALCTL = Path(sys.executable).parent / "palctl"


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_gain_reads_the_clusters_own_accounting(make_minicluster: Callable[..., Minicluster], tmp_path: Path) -> None:
    cluster = make_minicluster("--nodes", "2", "--dbd")
    cluster.submit("--gres=gpu:2", "--comment=app:resnet50", wrap="sleep 2")
    cluster.submit("--nodes=2", "--gres=gpu:4", wrap="sleep 2")
    cluster.submit(wrap="sleep 1")  # no GPU
    for name in ODD:
        cluster.submit("--gres=gpu:1", "-J", name, f"--comment=app:bert {name}", wrap="sleep 2")
    ended = ("sacct", "-a", "-X", "-n", "-P", "-S", "now-1hours", "-o", "State")
    wait_for(
        lambda: cluster.client(*ended).split() == ["COMPLETED"] * (3 + len(ODD)), "all have ended, and sacct knows"
    )
    cluster.wait_state(cluster.submit("--gres=gpu:1"), "RUNNING")  # has not ended
    (tmp_path / "pal.yaml").write_text(f"cluster: {{bin_dir: {cluster.bin}}}\nstate_dir: {tmp_path}\n")
    (tmp_path / "scores.csv").write_text("node,slot,class,score\nn1,0,A,1.0\nn1,1,A,1.5\nn2,0,A,1.0\nn2,1,A,1.0\n")
    words: list[str | Path] = [PALCTL, "--config", tmp_path / "pal.yaml", "gain", "--since", "1d", "--json"]
    words += ["--scores", tmp_path / "scores.csv"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["jobs"], report["nodes"], report["users"]) == (2 + len(ODD), 2, 1)
    assert "left out" not in done.stderr
    assert any(f" of {2 + len(ODD)} jobs name an application that is known" in line for line in report["assumptions"])
    assert [one["unknown_as"] for one in report["saved"]] == ["A", "C"]
