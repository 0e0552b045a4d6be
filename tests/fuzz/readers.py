"""Every reader of what others write: files, and the words of Slurm's records. In: bytes. Out: nothing but PalErrors."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pal_slurm import config
from pal_slurm.daemon.leases.alive import is_name
from pal_slurm.intake.score_file import read_scores
from pal_slurm.model import JobRef, read_hint
from pal_slurm.policy.memory import Head, Memory, memory_of
from pal_slurm.probe.reading import read
from pal_slurm.probe.reporting import parse
from pal_slurm.sim import profiles
from pal_slurm.sim.traces import read_trace
from pal_slurm.slurm import gres
from pal_slurm.slurm.devices import taken
from pal_slurm.slurm.mark import read_mark
from pal_slurm.slurm.nodeset import expand, unfold
from tests.fuzz.guided import Reader

NOW = 1_800_000_000.0
WHOLE = Memory(1.0, {JobRef(1, 2): 3.0}, {JobRef(4, 5): Head(6.0, 7.0)})
_HOME = tempfile.TemporaryDirectory(prefix="pal-readers")
_FILE = Path(_HOME.name) / "file"


def _path(data: bytes) -> Path:
    _FILE.write_bytes(data)
    return _FILE


def _words_of_slurm(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    read_mark(text)
    read_hint(text)
    gres.gpus_in(text), gres.indices_of(text), gres.beside(text), gres.amount_per_gpu(text)
    taken(text, (gres.Gpus("a100", 2), gres.Gpus("", 2)))
    is_name(text)
    if len(text) < 60 and "[" not in text:  # a list of any length is what its reader says
        unfold(text), expand(text)


def _memory(data: bytes) -> None:
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return
    memory_of(plain)


READERS: Mapping[str, Reader] = {
    "traces": lambda data: read_trace(_path(data)),
    "scores": lambda data: read_scores(data, "file", ("A", "B"), NOW),
    "profiles": lambda data: profiles.read_scores(_path(data), 2, 4),
    "run times": lambda data: profiles.run_times(_path(data)),
    "documents": lambda data: read(data, NOW),
    "step reports": parse,
    "pal.yaml": lambda data: config.load(_path(data)),
    "words of Slurm": _words_of_slurm,
    "memory": _memory,
}

SEEDS: Mapping[str, tuple[bytes, ...]] = {
    "traces": (
        b"job_id,submit_s,gpus,iterations,s_per_iteration,class\n7,98.5,2,100,0.5,B\n3,10,1,200,2.0,A\n",
        b"job_id,num_gpus,submit_time,duration,model\n0,4,98,1000.0,BERT\n",
        b"JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|Timelimit\n"
        b"1|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T01:00:00|gres/gpu=2|n[1-2]|u|app:x|02:00:00\n",
        b"ResNet-18 (batch size 64)\tpython3 main.py\tdata\t-n\t1\t1000\t1\tstatic\t1\t-1.0\t0.5\n",
    ),
    "scores": (
        b"node,slot,class,score\nn1,0,A,1.1\nn1,1,A,0.9\n",
        b'[{"node": "n1", "slot": 0, "class": "A", "score": 1.0}]',
        b"gpu,node,app,seconds\nGPU-1,n1,resnet,2.5\n",
    ),
    "profiles": (b"node,slot,class,score\nn1,0,A,1.1\nn1,1,A,0.9\nn2,0,A,1.0\n",),
    "run times": (b"node,slot,app,seconds\nn1,0,resnet,1.1\n", b"gpu,node,app,seconds\nGPU-1,n1,resnet,2.5\n"),
    "documents": (
        json.dumps({
            "pal": 1, "kind": "bench", "made_by": "t", "begun_at": 1.0, "ended_at": 2.0, "job": "7",
            "devices": [{"uuid": "GPU-1", "node": "n1", "slot": 0, "model": "A100", "vendor": "t"}],
            "kernels": [{"name": "k", "app": "a", "class": "A"}],
            "runs": [{"kernel": "k", "devices": ["GPU-1"], "scope": "gpu", "seconds": 0.2, "at": 1.5, "seq": 0}],
        }).encode(),
        json.dumps({"pal": 1, "kind": "inventory", "made_by": "x", "begun_at": 1.0, "ended_at": 2.0}).encode(),
    ),
    "step reports": (
        b'{"job": "7_1", "app": "a", "rank": 0, "begun_at": 1.0, "ended_at": 9.0, "count": 3, "seconds": 6.0, '
        b'"fastest": 1.0, "slowest": 3.0}',
    ),
    "pal.yaml": (
        b"actuator: pin\npolicy: {name: pal, patience: choosy}\nlease: {max_s: 600}\n",
        b"classes:\n  names: [A, B]\napps:\n  resnet: {class: A}\ncanary: {percent: 50, partitions: [gpu]}\n",
        b"patterns:\n- {app: bert, name: train_*}\n",
    ),
    "words of Slurm": (
        b"pal1{b=1800000000;u=1800000100;n=gres/gpu:2;N=1-2;P=gpu;f=a100;r=1;q=1;m=1} more",
        b"app:resnet class:A pal:off pal:move=30", b"gres/gpu:g0:1(IDX:0),gres/gpu:a100:2(IDX:1-2)", b"n1,n2",
    ),
    "memory": (json.dumps(WHOLE.plain()).encode(),),
}  # fmt: skip
