"""Users who forge what the head learns from, on real clusters: no score that others are placed by moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pal_slurm.store import OutcomeRepo, open_store
from tests.slurm.minicluster import PROJECT, Minicluster, wait_for
from tests.slurm.pald import Pald

PROBE = ["env", f"PYTHONPATH={PROJECT}", "PYTHONDONTWRITEBYTECODE=1", "python3", "-m", "pal_slurm.probe"]
QUICK = ["--rounds", "3", "--warm", "0", "--run", "0.2", "--cool-wait", "0", "--scope", "gpu"]
KERNEL = "resnet=fake:A,base=0.02,noise=0.005,pace=0"
HOURS_AGO = 3 * 3600
# Seven datagrams, ten minutes each: three at the usual pace, four at another
FORGE = """
import json, os, socket, sys, time
now, usual, then = time.time(), 0.2, float(sys.argv[1])
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for i in range(7):
    each = usual if i < 3 else then
    begun = now - 120 - (7 - i) * 600
    report = {"job": os.environ["SLURM_JOB_ID"], "rank": 0, "begun_at": begun, "ended_at": begun + 599,
              "count": int(599 / each), "seconds": 599.0, "fastest": each, "slowest": each, "app": "net"}
    out.sendto(json.dumps(report).encode(), os.environ["PAL_PROBE_SOCKET"])
time.sleep(1.3)
"""
# The file that the watcher would have written, by a user who needs none
COUNTERFEIT = r"""
import json, sys, time
spool, job, node, uuid, then = *sys.argv[1:5], float(sys.argv[5])
begun = time.time() - 4320
device = {"uuid": uuid, "node": node, "slot": 1, "model": "a100", "source": "fake", "reasons": []}
lines = [{"format": "pal-probe", "version": 1, "kind": "job", "job": job, "node": node, "part": 0, "made_by": "me",
          "app": "net", "begun_at": begun, "devices": [device]}]
for i in range(7):
    each, at = 0.2 if i < 3 else then, begun + i * 600
    lines.append({"line": "steps", "rank": 0, "begun_at": at, "ended_at": at + 599, "count": int(599 / each),
                  "seconds": 599.0, "fastest": each, "slowest": each})
lines.append({"line": "end", "ended_at": begun + 4200, "last": True, "lines": 9})
open(f"{spool}/mine-{job}-{uuid}.jsonl", "w").write("".join(json.dumps(line) + "\n" for line in lines))
"""


def open_spool(cluster: Minicluster, tmp_path: Path) -> Path:
    """One that jobs may write too, as `watch --job` needs it where there are no control groups."""
    spool = cluster.dir / f"spool-{tmp_path.name}"
    spool.mkdir()
    spool.chmod(0o3733)  # the cluster's users are in no group together
    return spool


def night(cluster: Minicluster, pald: Pald, spool: Path) -> dict[str, object]:
    """Node n1 is measured by root, some hours ago; returns the document."""
    gpus = ",".join(f"gpu:g{slot}:1" for slot in range(cluster.gpus))
    words = ["srun", "-w", "n1", "--exclusive", f"--gres={gpus}", *PROBE, "bench", "--devices", "fake"]
    made: dict[str, object] = json.loads(cluster.client(*words, "-k", KERNEL, *QUICK, timeout=120))
    text = json.dumps(made, default=str)
    made = json.loads(text, object_hook=_earlier)
    (spool / "bench-n1.json").write_text(json.dumps(made))
    pald.palctl("ingest")
    return made


def _earlier(record: dict[str, object]) -> dict[str, object]:
    moments = {key: at for key, at in record.items() if key in ("begun_at", "ended_at", "measured_at")}
    return record | {key: at - HOURS_AGO for key, at in moments.items() if isinstance(at, float | int)}


def forge(cluster: Minicluster, spool: Path, user: str, slot: int, each: float) -> None:
    watch = f'exec "$@" watch --devices fake --spool {spool} --job "$SLURM_JOB_ID" --interval 0.1 -- $FORGE'
    words = ["env", f"CODE={FORGE}", "sh", "-c", watch.replace("$FORGE", f'python3 -c "$CODE" {each}'), "sh", *PROBE]
    cluster.client("srun", "-w", "n1", f"--gres=gpu:g{slot}:1", *words, user=user, timeout=90)


def ended(pald: Pald, *slots: int) -> None:
    """pald has seen a job end on each of these slots of n1, alone."""

    def seen() -> bool:
        store = open_store(f"sqlite:///{pald.database}")
        try:
            found = OutcomeRepo(store, pald.cluster_name).since(0)
        finally:
            store.close()
        return {(slot,) for slot in slots} <= {o.gpus[0] for o in found if o.end is not None}

    wait_for(seen, f"jobs on slots {slots} of n1 ended", 30)


def scores(pald: Pald, cls: str = "A") -> dict[int, float]:
    return {int(row["slot"]): row[cls] for row in json.loads(pald.palctl("scores", "--json")) if row["node"] == "n1"}


def settings(spool: Path) -> dict[str, object]:
    return {"profile.spool": str(spool), "apps": {"net": {"class": "A"}}, "learning.enabled": False}


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_step_times_of_more_time_than_the_job_had_move_no_score(minicluster: Minicluster, tmp_path: Path) -> None:
    spool = open_spool(minicluster, tmp_path)
    with Pald(minicluster, tmp_path, settings(spool)) as pald:
        pald.start()
        night(minicluster, pald, spool)
        before = scores(pald)
        forge(minicluster, spool, "nobody", 1, 0.6)
        forge(minicluster, spool, "nobody", 2, 0.06)
        ended(pald, 1, 2)
        said = pald.run_palctl("ingest")
        print(said.stdout, said.stderr, pald.palctl("scores"))
        assert scores(pald) == pytest.approx(before, rel=1e-6)


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_user_can_not_speak_for_the_jobs_of_another_or_for_the_night(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    spool = open_spool(minicluster, tmp_path)
    with Pald(minicluster, tmp_path, settings(spool)) as pald:
        pald.start()
        document = night(minicluster, pald, spool)
        before = scores(pald)
        uuids = {d["slot"]: d["uuid"] for d in document["devices"]}  # type: ignore[attr-defined]
        theirs = minicluster.submit("-w", "n1", "--gres=gpu:g1:1", wrap="sleep 2")
        minicluster.wait_state(theirs, "COMPLETED")
        mine = minicluster.submit("-w", "n1", "--gres=gpu:g2:1", wrap="sleep 2", user="nobody")
        minicluster.wait_state(mine, "COMPLETED")
        ended(pald, 1, 2)
        for job, uuid in ((theirs, uuids[1]), (mine, uuids[1]), (mine, uuids[2]), (999, uuids[1])):
            words = [str(spool), str(job), "n1", uuid, "0.6"]
            minicluster.client("python3", "-c", COUNTERFEIT, *words, user="nobody")
        text = json.dumps(document).replace("resnet", "pagerank").replace('"cls": "A"', '"cls": "C"')
        minicluster.client("tee", str(spool / "bench.json"), stdin=text, user="nobody")
        said = pald.run_palctl("ingest")
        print(said.stdout, said.stderr, pald.palctl("scores"))
        assert scores(pald) == pytest.approx(before, rel=1e-6)
        assert set(scores(pald, "C").values()) == {None}
        reasons = {path.name: path.read_text() for path in (pald.home / "intake" / "set-aside").glob("*.reason")}
        assert f"job {theirs} was another user's" in reasons[f"mine-{theirs}-{uuids[1]}.jsonl.reason"]
        assert f"job {mine} did not have the GPU" in reasons[f"mine-{mine}-{uuids[1]}.jsonl.reason"]
        assert "only pal measures" in reasons["bench.json.reason"]
        assert "7 step reports that can't be were left out" in said.stdout
        assert (spool / f"mine-999-{uuids[1]}.jsonl").exists()  # Slurm may still tell of it
