"""pald moves running jobs of real Slurms: the indices, the steps that were saved, the story that palctl why tells."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from pal_slurm.model import Ending, Move
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.store import MoveRepo, open_store
from tests.slurm.history import jobs_ran
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald

MOVES: dict[str, object] = {
    "actuator": "move",
    "moves.mode": "asked",
    "policy.patience": "none",
    "moves.first_s": 0,
    "moves.last_s": 0,
    "moves.share": 0.5,
    "moves.cost_s": 1,
    "moves.per_job": 1000,
    "moves.per_user": 10_000,
    "moves.per_cluster": 10_000,
    "apps": {"resnet": {"class": "A"}, "bert": {"class": "B"}},
}
# Counts ten steps a second in a file, and goes on where it stopped. SIGTERM ends `date` too: then no line is written.
COUNTS = """
n=$(tail -n1 {log} 2>/dev/null | cut -d' ' -f1); n=${{n:-0}}
trap 'exit 0' TERM
while true; do
  n=$((n + 1)); t=$(date +%s.%N)
  echo "$n $t $SLURM_JOB_NODELIST:$CUDA_VISIBLE_DEVICES" >> {log}
  sleep 0.1 & wait
done
"""


def counting(cluster: Minicluster, log: Path, *options: str, script: str = COUNTS) -> int:
    return cluster.submit(*options, wrap=script.format(log=log))


def steps(log: Path) -> list[tuple[int, float, str]]:
    lines = (line.split() for line in log.read_text().splitlines())
    return [(int(words[0]), float(words[1]), words[2]) for words in lines if len(words) == 3]


def dead_times(log: Path) -> list[float]:
    """From the last step before to the first after, of each change of place."""
    return [b[1] - a[1] for a, b in pairwise(steps(log)) if a[2] != b[2]]


def moves(pald: Pald, job: int) -> list[Move]:
    store = open_store(f"sqlite:///{pald.database}")
    try:
        return MoveRepo(store, pald.cluster_name).of_job(job)
    finally:
        store.close()


def arrived(pald: Pald, job: int, log: Path, number: int) -> None:
    """So many moves are over, and it counts there."""
    wait_for(lambda: sum(m.ending is not None for m in moves(pald, job)) == number, f"move {number}", 240)
    assert moves(pald, job)[-1].ending is Ending.MOVED
    wait_for(lambda: len(dead_times(log)) >= number, "it counts")


def gains(log: Path) -> None:
    """It runs for so long that the move has paid: else pald would stop moving (P11)."""
    seen = len(steps(log))
    wait_for(lambda: len(steps(log)) > seen + 60, "sixty steps")


def logs(cluster: Minicluster, name: str) -> Path:
    """Where jobs may write; empty, for another test on this cluster may have had one of that name."""
    log = cluster.dir / "run" / name
    log.write_text("")
    log.chmod(0o666)
    return log


@pytest.mark.slurm("26.05", "24.11", "22.05")
def test_a_job_moves_to_a_better_gpu_resumes_and_palctl_why_tells_the_story(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        good = (
            {f"n5:{slot}": 1.0 for slot in (1, 3)}
            if minicluster.release != "22.05"
            else {f"n5:{slot}": 1.0 for slot in range(4)}
        )
        pald.scores(good, others=1.6)
        pald.start()
        first = minicluster.submit("--gres=gpu:4", "--comment=app:resnet", "-w", "n5")  # the better ones are taken
        minicluster.wait_state(first, "RUNNING")
        log = logs(minicluster, "steps-0")
        job = counting(minicluster, log, "--comment=app:resnet pal:move", "--gres=gpu:2", "-t", "60")
        minicluster.wait_state(job, "RUNNING")
        was = minicluster.gpu_indices(job)
        assert "n5" not in was
        wait_for(lambda: len(steps(log)) > 10, "it counts")
        pald.wait_cycle()
        assert moves(pald, job) == []
        minicluster.client("scancel", str(first))
        wait_for(lambda: bool(moves(pald, job)) and moves(pald, job)[0].ending is not None, "it was moved", 240)
        (move,) = moves(pald, job)
        assert move.ending is Ending.MOVED, move
        slots = "1,3" if minicluster.release != "22.05" else "0,1"
        assert minicluster.gpu_indices(job) == {"n5": slots}
        wait_for(lambda: len(dead_times(log)) == 1, "it counts again")
        counted = [n for n, _, _ in steps(log)]
        assert counted == list(range(1, len(counted) + 1)), "it resumed at the saved step"
        said = pald.wait_told("It got n5", "why", str(job))
        for words in ("requeued", "pinned to n5"):
            assert words in said, said
        fields = minicluster.fields(job)
        assert (fields["Restarts"], fields["Nice"]) == ("1", "0")
        print(f"dead: {dead_times(log)}, {move.dead_s}")


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_job_that_saves_and_requeues_itself_when_it_is_asked_to_is_pinned_anew(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    """As Lightning and submitit do."""
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        pald.scores({f"n5:{slot}": 1.0 for slot in (1, 3)}, others=1.6)
        jobs_ran(pald, 3500, "resnet", limit_s=3600)  # else nothing says that it is worth a minute of saving
        pald.start()
        first = minicluster.submit("--gres=gpu:4", "--comment=app:resnet", "-w", "n5")
        minicluster.wait_state(first, "RUNNING")
        log = logs(minicluster, "steps-l")
        script = COUNTS.replace("trap 'exit 0' TERM", "trap 'scontrol requeue $SLURM_JOB_ID; sleep 60' USR1")
        words = "--comment=app:resnet pal:move=B:USR1@60"
        job = minicluster.submit(words, "--gres=gpu:2", "-t", "60", wrap=script.format(log=log))
        minicluster.wait_state(job, "RUNNING")
        wait_for(lambda: len(steps(log)) > 10, "it counts")
        minicluster.client("scancel", str(first))
        wait_for(lambda: bool(moves(pald, job)) and moves(pald, job)[0].ending is not None, "it was moved", 240)
        assert moves(pald, job)[0].ending is Ending.MOVED
        assert minicluster.gpu_indices(job) == {"n5": "1,3"}
        wait_for(lambda: len(dead_times(log)) == 1, "it counts again")
        counted = [n for n, _, _ in steps(log)]
        assert counted == list(range(1, len(counted) + 1))
        said = pald.palctl("why", str(job))
        assert "asked to save" in said and "requeued as it was" not in said


Two = tuple[dict[str, int], dict[str, Path], str, str]


def two_on_two_nodes(minicluster: Minicluster, pald: Pald, script: str = COUNTS) -> Two:
    """A job that minds slow GPUs on one of the nodes that are left, one that does not on the other; and these two."""
    for node in minicluster.nodes[2:]:
        minicluster.drain(node)
    pald.start()
    files = {name: logs(minicluster, f"steps-{name}") for name in ("resnet", "bert")}
    jobs = {}
    for name, log in files.items():
        words = (f"--comment=app:{name} pal:move", "--gres=gpu:4", "-t", "60")
        jobs[name] = counting(minicluster, log, *words, script=script)
        minicluster.wait_state(jobs[name], "RUNNING")
    # A script that is asked to end before its first line leaves no step to compare with.
    wait_for(lambda: all(steps(log) for log in files.values()), "they count")
    slow, fast = *minicluster.gpu_indices(jobs["resnet"]), *minicluster.gpu_indices(jobs["bert"])
    return jobs, files, slow, fast


def held(minicluster: Minicluster, job: int) -> list[tuple[str, int]]:
    """(node, slot)"""
    found = []
    for nodes, slots in minicluster.gpu_indices(job).items():
        ends = [part.partition("-") for part in slots.split(",")]
        all_slots = [slot for a, _, b in ends for slot in range(int(a), int(b or a) + 1)]
        found += [(node, slot) for node in expand_hosts(nodes) or () for slot in all_slots]
    return sorted(found)


def show_that_it_is_slow(pald: Pald, home: Path, slow: str, fast: str) -> None:
    """To those who mind: class A."""
    rows = [f"{node},{slot},A,{1.7 if node == slow else 1.0}" for node in (slow, fast) for slot in range(4)]
    rows += [f"{node},{slot},B,1.0" for node in (slow, fast) for slot in range(4)]
    (home / "scores.csv").write_text("node,slot,class,score\n" + "\n".join(rows) + "\n")
    pald.palctl("scores", "import", str(home / "scores.csv"))


@pytest.mark.slurm("26.05", "24.11")
def test_two_jobs_exchange_their_gpus_where_both_together_gain(minicluster: Minicluster, tmp_path: Path) -> None:
    """A job that minds slow GPUs sits on them, one that does not mind sits on the good ones."""
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        jobs, files, slow, fast = two_on_two_nodes(minicluster, pald)
        show_that_it_is_slow(pald, tmp_path, slow, fast)
        wait_for(lambda: all(any(m.ending for m in moves(pald, job)) for job in jobs.values()), "both moved", 240)
        assert {moves(pald, job)[0].ending for job in jobs.values()} == {Ending.MOVED}
        now = {name: set(minicluster.gpu_indices(job)) for name, job in jobs.items()}
        assert now == {"resnet": {fast}, "bert": {slow}}
        wait_for(lambda: all(len(dead_times(log)) == 1 for log in files.values()), "they count again")
        for log in files.values():
            counted = [n for n, _, _ in steps(log)]
            assert counted == list(range(1, len(counted) + 1))
        assert {m.partner for job in jobs.values() for m in moves(pald, job)} == set(jobs.values())


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_spread_job_and_those_who_hold_the_gpus_of_a_node_change_places(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    """It runs on two slow GPUs of each of two nodes, which the four of the third node do not mind."""
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        one, two, three, *others = minicluster.nodes
        for node in others:
            minicluster.drain(node)
        pald.start()
        beside = [minicluster.submit(f"--gres=gpu:{n}", "-w", node) for node, n in ((one, 2), (two, 2), (three, 4))]
        for job in beside:
            minicluster.wait_state(job, "RUNNING")
        files = {n: logs(minicluster, f"steps-{n}") for n in range(5)}
        jobs = {0: counting(minicluster, files[0], "--comment=app:resnet pal:move", "-n4", "--gpus=4", "-t", "60")}
        minicluster.wait_state(jobs[0], "RUNNING")
        was = held(minicluster, jobs[0])
        assert [node for node, _ in was] == [one, one, two, two]
        minicluster.client("scancel", str(beside[2]))
        for n in range(1, 5):
            words = ("--comment=app:bert pal:move", "--gres=gpu:1", "-t", "60")
            jobs[n] = counting(minicluster, files[n], *words)
            minicluster.wait_state(jobs[n], "RUNNING")
        assert {node for n in range(1, 5) for node, _ in held(minicluster, jobs[n])} == {three}
        wait_for(lambda: all(steps(log) for log in files.values()), "they count")
        rows = [
            f"{node},{slot},{cls},{1.7 if cls == 'A' and node != three else 1.0}"
            for node in (one, two, three) for slot in range(4) for cls in "AB"
        ]  # fmt: skip
        (tmp_path / "scores.csv").write_text("node,slot,class,score\n" + "\n".join(rows) + "\n")
        pald.palctl("scores", "import", str(tmp_path / "scores.csv"))
        wait_for(lambda: all(any(m.ending for m in moves(pald, job)) for job in jobs.values()), "all moved", 240)
        assert {moves(pald, job)[0].ending for job in jobs.values()} == {Ending.MOVED}
        assert {len(moves(pald, job)[0].ring) for job in jobs.values()} == {5}
        assert held(minicluster, jobs[0]) == [(three, slot) for slot in range(4)]
        assert sorted(found for n in range(1, 5) for found in held(minicluster, jobs[n])) == was
        wait_for(lambda: all(len(dead_times(log)) == 1 for log in files.values()), "they count again")
        for log in files.values():
            counted = [n for n, _, _ in steps(log)]
            assert counted == list(range(1, len(counted) + 1))


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_after_undo_all_in_the_middle_of_a_move_with_pald_dead_the_job_runs(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        pald.scores({f"n5:{slot}": 1.0 for slot in range(4)}, others=1.6)
        pald.start(env={"PAL_CRASH_AT": "after-edit:3"})
        first = minicluster.submit("--gres=gpu:4", "--comment=app:resnet", "-w", "n5")
        minicluster.wait_state(first, "RUNNING")
        pald.kill()
        pald.start()
        job = counting(minicluster, logs(minicluster, "steps-u"), "--comment=app:resnet pal:move", "--gres=gpu:2")
        minicluster.wait_state(job, "RUNNING")
        pald.wait_cycle()
        pald.kill()
        minicluster.client("scancel", str(first))
        minicluster.wait_state(first, "CANCELLED")
        # 26.05's sinfo goes on to call the node mixed.
        wait_for(lambda: " State=IDLE " in minicluster.client("scontrol", "show", "node", "n5", "-o"), "it is free")
        assert pald.once(env={"PAL_CRASH_AT": "after-edit:1"}) != 0  # it dies when the job was requeued
        wait_for(lambda: minicluster.fields(job)["Restarts"] == "1", "it was requeued")
        pald.kill()
        pald.database.unlink()
        pald.palctl("undo", "--all")
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.fields(job)["Restarts"] == "1"


@pytest.mark.slurm("26.05", "24.11")
@pytest.mark.slow
def test_dead_times(minicluster: Minicluster, tmp_path: Path) -> None:
    """Moves one job to and fro by its scores, twenty times; prints what docs/moves.md tells."""
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        log = logs(minicluster, "steps-d")
        pald.start()
        job = counting(minicluster, log, "--comment=app:resnet pal:move", "--gres=gpu:2", "-t", "600")
        minicluster.wait_state(job, "RUNNING")
        for number in range(1, 21):
            node = "n5" if number % 2 else "n6"
            # Others than ever before: the same file counts once.
            pald.scores({f"{node}:{slot}": 1.0 - number / 1000 for slot in (1, 3)}, others=1.6 + number / 1000)
            arrived(pald, job, log, number)
            gains(log)
            assert minicluster.gpu_indices(job) == {node: "1,3"}
        found = dead_times(log)
        print(f"{minicluster.release}: {len(found)} moves, dead {median(found):.1f} s, at most {max(found):.1f} s")
