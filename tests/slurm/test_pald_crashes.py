"""pald is killed at every step between intent and outcome: the next finishes or undoes it, nothing twice (P3)."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.daemon.writer import CRASH_POINTS
from pal_slurm.model import EditKind, Intent, Outcome, Unpin, until
from pal_slurm.store import Ledger, open_store
from tests.slurm.backends import backend_of
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of, pin_by_hand, pin_of

# A cycle writes what it takes back and what it starts in its first batch, and renewed leases in its second.
BATCHES = {"undo and pin": 1, "renew": 2}


@pytest.mark.every(2)
@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_pald_killed_at_any_step_leaves_nothing_half_done_and_nothing_is_done_twice(
    minicluster: Minicluster, tmp_path: Path, point: str, batch: int
) -> None:
    journal = Journal(minicluster)
    minicluster.drain("n8")
    with Pald(minicluster, tmp_path, {"cycle.interval_s": 10}) as pald, minicluster.leases():
        lost = minicluster.submit("--gres=gpu:2")  # to be pinned where it can't start, with no record of it
        fresh = minicluster.submit("--gres=gpu:2")
        waits = minicluster.submit("-N8", "--gpus-per-node=4")
        assert all(mark_of(minicluster, job) for job in (lost, fresh, waits))
        request = minicluster.fields(lost)["TresPerNode"]
        pin_by_hand(minicluster, [lost], "n8", (0, 1))
        code = pald.once(env={"PAL_CRASH_AT": f"{point}:{batch}"})
        assert code == -signal.SIGKILL, pald.said()
        pald.kill()  # its worker
        pald.configure({"cycle.interval_s": 1})
        pald.start()
        minicluster.wait_state(fresh, "RUNNING")
        wait_for(lambda: journal.node_lists(lost)[1:2] == [""], "the pin that can't start is taken back, once")
        pald.wait_cycle()
        pins = [pin for pin in pald.intents(fresh, EditKind.PIN) if pin.outcome is not Outcome.REFUSED]
        assert len(pins) == 1 and pins[0].outcome is Outcome.DONE and pins[0].closed
        assert journal.node_lists(fresh) == list(pin_of(pins[0]).nodes)
        assert [i for i in pald.ledger() if i.outcome in (None, Outcome.UNKNOWN)] == []
        if (
            batch == 1 and point in CRASH_POINTS[:2]
        ):  # else it was taken back before the crash, and may be placed by now
            assert minicluster.fields(lost)["TresPerNode"] == request
            assert start_of(minicluster, lost) > time.time()
        assert start_of(minicluster, waits) > time.time()
        pald.palctl("pause")
        minicluster.wait_state(lost, "RUNNING")
        assert "n8" not in minicluster.gpu_indices(lost)
        assert journal.node_lists(lost).count("") == 1


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_pin_that_was_carried_out_before_the_crash_is_recognised(minicluster: Minicluster, tmp_path: Path) -> None:
    """The partition goes down between intent and edit, so that Slurm takes the pin and does not start the job."""
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path) as pald:
        pald.start(env={"PAL_CRASH_AT": "after-intent:1:STOP,after-edit"})
        job = minicluster.submit("--gres=gpu:2")
        wait_for(lambda: bool(pald.intents(job)), "the intent is on disk")
        minicluster.client("scontrol", "update", "partitionname=gpu", "state=down")
        try:
            pald.send(signal.SIGCONT)
            assert pald.wait_end() == -signal.SIGKILL
            (pin,) = pald.intents(job)
            assert pin.outcome is None
            assert journal.node_lists(job) == list(pin_of(pin).nodes)
            pald.kill()
            pald.start()
            assert pald.intents(job)[0].outcome is Outcome.DONE
        finally:
            minicluster.client("scontrol", "update", "partitionname=gpu", "state=up")
        minicluster.wait_state(job, "RUNNING", within=60)
        wait_for(lambda: all(intent.closed for intent in pald.intents(job)), "pald has seen it run")


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_pald_that_starts_anew_waits_as_long_before_the_next_pin(minicluster: Minicluster, tmp_path: Path) -> None:
    lua_settings(minicluster, lease="600")
    minicluster.drain("n8")
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        job = minicluster.submit("--gres=gpu:2")
        pin_by_hand(minicluster, [job], "n8", (0, 1))
        undone_before(pald, job)
        pald.spawn(env={"PAL_CRASH_AT": "after-outcome"})
        assert pald.wait_end() == -signal.SIGKILL
        pald.kill()
        back = pald.intents(job, EditKind.UNPIN)[-1]
        assert back.outcome is Outcome.DONE and until(back.edit)
        pald.start()
        minicluster.wait_state(job, "RUNNING", within=90)
        pins = pald.intents(job, EditKind.PIN)
        assert pins and min(pin.written_at for pin in pins) >= (until(back.edit) or 0) - LeaseRules().least_s


def undone_before(pald: Pald, job: int) -> None:
    """A pin of this job was taken back once already, so that the next time it waits longer."""
    with backend_of(pald.cluster, "cli") as slurm:
        submit = slurm.jobs([job])[job].submit
    store = open_store(f"sqlite:///{pald.database}", create=True)
    try:
        ledger = Ledger(store, pald.cluster_name)
        (once,) = ledger.write([Intent(0, submit, Unpin(job, until=submit), 0, submit)])
        ledger.outcome([(once, Outcome.DONE, "")], submit, close=True)
    finally:
        store.close()


def start_of(cluster: Minicluster, job: int) -> float:
    with backend_of(cluster, "cli") as slurm:
        return float(slurm.jobs([job])[job].eligible or 0)


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_the_request_of_a_pin_that_was_taken_back_is_what_the_user_wrote(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    forms = {"-N1 --gres=gpu:2": "TresPerNode", "--gpus=2": "TresPerJob", "-n2 --gpus-per-task=1": "TresPerTask"}
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        jobs = {form: minicluster.submit(*form.split()) for form in forms}
        before = {form: minicluster.fields(job).get(forms[form]) for form, job in jobs.items()}
        for node in minicluster.nodes:
            minicluster.drain(node)
        pin_by_hand(minicluster, list(jobs.values()), "n8", (0, 1))
        pald.start()

        def restored() -> bool:
            return all(minicluster.fields(job)["ReqNodeList"] == "(null)" for job in jobs.values())

        wait_for(restored, "pins that can't start are taken back")
        assert {form: minicluster.fields(job).get(forms[form]) for form, job in jobs.items()} == before
        assert not any(":g" in minicluster.client("scontrol", "show", "job", str(job)) for job in jobs.values())
