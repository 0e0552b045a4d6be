"""A bug of pald's own: it is told, counted and outlived, jobs go on, and pald places again when it is over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, pin_by_hand
from tests.slurm.test_pald_metrics import answer, free_port

BUG = """
import importlib, pathlib, sys
def plant(module, owner, name):
    where = importlib.import_module(module)
    where = getattr(where, owner) if owner else where
    good = getattr(where, name)
    def bad(*args, **kwargs):
        if pathlib.Path({flag!r}).exists():
            raise RuntimeError("\\x1b[2J" + name)
        return good(*args, **kwargs)
    setattr(where, name, bad)
for bug in {bugs!r}:
    plant(*bug)
"""


def planted(home: Path, *bugs: tuple[str, str, str]) -> tuple[Path, dict[str, str]]:
    """The file that lets the bugs bite while it exists; the environment of a pald that has them."""
    flag, where = home / "bite", home / "bugs"
    where.mkdir()
    flag.touch()
    (where / "bugs.py").write_text(BUG.format(flag=str(flag), bugs=bugs))
    (where / "sitecustomize.py").write_text("import sys\nif 'pald' in ' '.join(sys.orig_argv):\n    import bugs\n")
    return flag, {"PYTHONPATH": str(where)}


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_bugs_beside_the_plan_keep_no_job_from_its_place(minicluster: Minicluster, tmp_path: Path) -> None:
    port = free_port()
    _, env = planted(
        tmp_path,
        ("pal_slurm.daemon.observe", "Observer", "record_changes"),
        ("pal_slurm.daemon.beside.learning", "Learner", "begin_when_due"),
        ("pal_slurm.daemon.beside.forgetting", "Forgetter", "begin_when_due"),
        ("pal_slurm.daemon.cycle", "", "news"),
        ("pal_slurm.daemon.wake", "Waker", "wait"),
        ("pal_slurm.daemon.main", "", "give_sign"),
    )
    with Pald(minicluster, tmp_path, {"metrics.listen": f"127.0.0.1:{port}"}) as pald, minicluster.leases():
        pald.start(env=env)
        job = minicluster.submit("--gres=gpu:2")
        minicluster.wait_state(job, "RUNNING")
        wait_for(lambda: [i.outcome for i in pald.intents(job, EditKind.PIN)] == [Outcome.DONE], "its pin is judged")
        for where in ("observing", "learning", "forgetting", "reasons", "bell", "alive"):
            pald.wait_said(rf"<3>{where}: a fault of ours, RuntimeError: \[2J\w+ \(bugs\.py:\d+\)")
            wait_for(lambda w=where: counted(port, w) > 1, f"{where} is counted")  # type: ignore[misc]
        assert "pald says: a fault of pald, at least" in pald.palctl("status")
        assert pald.stop() == 0
        assert pald.said().count("Traceback") == 6


def counted(port: int, where: str) -> float:
    found = re.search(rf'pal_faults_total\{{where="{where}"\}} (\S+)', answer(port))
    return float(found[1]) if found else 0.0


@pytest.mark.slurm("24.11", slow=("22.05", "26.05"))
def test_a_bug_in_the_plan_holds_no_job_and_pald_places_again_when_it_is_over(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    flag, env = planted(tmp_path, ("pal_slurm.daemon.cycle", "", "plan"))
    lua_settings(minicluster, lease="6")
    with Pald(minicluster, tmp_path) as pald:
        minicluster.drain("n3")
        with minicluster.leases():
            stuck = minicluster.submit("--gres=gpu:1")
            pin_by_hand(minicluster, [stuck], "n3", (0,))
            leased = minicluster.submit("--gres=gpu:1")
        pald.mark()
        pald.spawn(env=env)
        pald.wait_said(r"<3>cycle: a fault of ours, RuntimeError")
        assert not pald.gives_leases()
        for job in (stuck, leased):
            minicluster.wait_state(job, "RUNNING", within=90)
        assert {i.edit.kind for i in pald.intents(stuck)} == {EditKind.UNPIN}
        assert not pald.intents(leased)
        assert "pald says: a fault of pald, " in (said := pald.palctl("status"))
        assert "cycles fail, jobs start by themselves" in said
        flag.unlink()
        pald.wait_said(r"\d+ pending", within=90)
        wait_for(pald.gives_leases, "it gives leases again")
        placed = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(placed, "RUNNING")
        wait_for(lambda: [i.outcome for i in pald.intents(placed, EditKind.PIN)] == [Outcome.DONE], "its pin is judged")
        assert "cycles fail" not in pald.palctl("status")
        assert pald.stop() == 0
        assert pald.said().count("Traceback") == 1
