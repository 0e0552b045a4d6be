"""Files and commands that hold terminal escapes: what palctl, pald and pal-probe say of them can be printed (P9)."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
CLEAR = "\x1b[2J\x1b]0;title\x07\x9b31m\u202eevil"
COLUMNS = "JobID|JobIDRaw|User|Submit|Start|End"
PALD = ("pald", "--config", "HOME/pal.yaml", "--check-config")
PALCTL = ("palctl", "--config", "HOME/pal.yaml")


def document(**changes: object) -> str:
    plain: dict[str, object] = {"pal": 1, "kind": "inventory", "made_by": "x", "begun_at": 1.0, "ended_at": 2.0}
    return json.dumps({**plain, **changes}, ensure_ascii=False)


CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {  # the file, what is in it, the command
    "sacct, its header": ("f", f"JobID|{CLEAR}\n1|2\n", (*PALCTL, "gain", "--sacct", "FILE")),
    "sacct, a field": ("f", f"{COLUMNS}|{CLEAR}\n1|1|u|{CLEAR}|x|y|z\n", (*PALCTL, "gain", "--sacct", "FILE")),
    "a trace, unknown": ("f", f"{CLEAR}\n", (*PALCTL, "simulate", "FILE")),
    "a trace, its header": (
        "f", f"job_id,num_gpus,submit_time,duration,{CLEAR}\n{CLEAR},1,2\n",
        (*PALCTL, "simulate", "FILE", "--format", "philly"),
    ),
    "a trace, its name": (f"{CLEAR}", "", (*PALCTL, "simulate", "FILE")),
    "scores, a field": ("f", f"node,slot,class,{CLEAR}\nn1,0,A,1\n", (*PALCTL, "scores", "import", "FILE")),
    "scores, a value": ("f", f"node,slot,class,score\nn1,{CLEAR},A,{CLEAR}\n", (*PALCTL, "scores", "import", "FILE")),
    "scores, JSON": ("f", json.dumps([{"node": CLEAR, "slot": 0}]), (*PALCTL, "scores", "import", "FILE")),
    "scores, the file's name": (f"{CLEAR}.csv", "x\n", (*PALCTL, "scores", "import", "FILE")),
    "pal.yaml, a key": ("f", f"{json.dumps(CLEAR)}: 1\n", (*PALCTL, "config", "check", "FILE")),
    "pal.yaml, a value": ("f", f"actuator: {json.dumps(CLEAR)}\n", (*PALCTL, "config", "check", "FILE")),
    "pal.yaml, raw": ("f", f"actuator: {CLEAR}\n", (*PALCTL, "config", "check", "FILE")),
    "pal.yaml, read by pald": ("pal.yaml", f"{json.dumps(CLEAR)}: {json.dumps(CLEAR)}\n", PALD),
    "pal.yaml, a setting": ("pal.yaml", f"policy: {{name: {json.dumps(CLEAR)}}}\n", (*PALCTL, "status")),
    "a document": ("spool/f.json", document(**{CLEAR: CLEAR}), (*PALCTL, "ingest", "HOME/spool")),
    "a document's name": (f"spool/{CLEAR}.json", "{", (*PALCTL, "ingest", "HOME/spool")),
    "a document, read by the probe": ("f", document(kind=CLEAR), ("pal-probe", "check", "FILE")),
    "a tool's results": ("f", CLEAR, ("pal-probe", "import", "dcgm", "FILE")),
    "fake devices": ("f", json.dumps({CLEAR: CLEAR}), ("pal-probe", "inventory", "--devices", "fake:FILE")),
    "a policy": ("f.yaml", f"policy: {json.dumps(CLEAR)}\n", (*PALCTL, "simulate", "synthetic", "--policy", "FILE")),
    "true scores": ("f", f"gpu,node,{CLEAR}\n", (*PALCTL, "simulate", "synthetic", "--scores", "FILE")),
}  # fmt: skip


def run(home: Path, words: tuple[str, ...], file: Path | None = None) -> tuple[int, bytes]:
    """The exit code, and what a terminal got; to anything else click does not write escapes at all."""
    given = [word.replace("HOME", str(home)).replace("FILE", str(file)) for word in words]
    ours, its = pty.openpty()
    with subprocess.Popen([BIN / given[0], *given[1:]], stdout=its, stderr=its, cwd=home) as child:
        os.close(its)
        said = b""
        with contextlib.suppress(OSError):  # EIO: the last one has hung up
            while chunk := os.read(ours, 65536):
                said += chunk
        os.close(ours)
        return child.wait(120), said


def unprintable(said: bytes) -> set[str]:
    return {char for char in said.decode() if not char.isprintable()} - {"\r", "\n"}


@pytest.mark.every(3)
@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_a_file_can_be_printed(case: str, tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\nprofile: {{spool: {tmp_path}/spool}}\n")
    (tmp_path / "spool").mkdir()
    name, text, words = CASES[case]
    path = tmp_path / name
    path.write_text(text)
    code, said = run(tmp_path, words, path)
    assert code != 0 or b"aside" in said, said
    assert said
    assert b"Traceback" not in said
    assert unprintable(said) == set()


@pytest.mark.parametrize("says", ["error", "header"])
def test_what_a_command_of_slurm_says_can_be_printed(says: str, tmp_path: Path) -> None:
    tool = tmp_path / "sacct"
    text = f"JobID|{CLEAR}" if says == "header" else CLEAR
    stream, code = ("1", 0) if says == "header" else ("2", 1)
    tool.write_text(f"#!{sys.executable}\nimport os\nos.write({stream}, {text.encode()!r})\nraise SystemExit({code})\n")
    tool.chmod(0o755)
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\ncluster: {{bin_dir: {tmp_path}}}\n")
    code, said = run(tmp_path, (*PALCTL, "gain"))
    assert code != 0
    assert b"Traceback" not in said
    assert unprintable(said) == set()
