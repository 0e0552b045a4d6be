"""Submits rows to a real cluster, each in nodes of its own, and reads what each got. In: rows. Out: Got per row.

All rows run at once and no job sees another: what differs with pald is pald's. Jobs are a user's, not root's.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.shapes.got import Got, read
from tests.slurm.shapes.rows import Row

NODES = 4  # of each partition
USER = "alice"
EXIT = 7  # of every script
_TASK = f"""#!/bin/sh
env > "$1.$SLURM_PROCID"
[ "$2" ] || exit 0
[ "$SLURM_PROCID" != 0 ] || scontrol show job -d $SLURM_JOB_ID > "$2"
exit {EXIT}
"""
# Two steps at once, until both have been seen.
_HALF = """#!/bin/sh
echo $CUDA_VISIBLE_DEVICES > "$1"
for _ in $(seq 20); do [ -s "$2" ] && exec touch "$1.together"; sleep 0.5; done
"""
_SCRIPT = """#!/bin/sh
HEADER
o=HOME/NUMBER${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}
env > $o.batch
task=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
scontrol show job -d ${task:-$SLURM_JOB_ID} > $o.record
step() { n=$1; shift; timeout 40 srun "$@" HOME/task $o.step$n 2> $o.error$n; echo $? > $o.code$n; }
STEPS
mv $o.record $o.job
exit EXIT
"""
_TWO = """
half() { timeout 40 srun -n1 -N1 --exact HOME/half $o.half$1 $o.half$2 2> /dev/null; }
(half 1 2 & half 2 1; wait)
"""
_USUAL = ("", "-n1 --gres=gpu:1")


@dataclass(frozen=True)
class Ground:
    """A cluster for rows."""

    nodes: Callable[[int, int], Sequence[int]]  # numbers of a row's, of so many rows
    options: Callable[[int], Sequence[str]]  # of `minicluster up`, for so many rows
    said: tuple[str, ...] = ()  # by all jobs, beside their rows
    also: Callable[[Sequence[int]], Sequence[int]] = lambda nodes: nodes  # those of a row's second partition
    reserves: tuple[int, ...] = (1, 2)  # which of a row's nodes its reservation has
    begins: str = ""  # the first lines of each script; HOME: the directory


FOUR_NODES = Ground(
    lambda row, _: range(NODES * row + 1, NODES * (row + 1) + 1),
    lambda rows: ("--nodes", str(NODES * rows), "--dbd", "--set", "Licenses=matlab:1000", "--set", "TrackWCKey=yes"),
)


@dataclass(frozen=True)
class Place:
    """Where one row runs."""

    number: int
    home: Path
    nodes: Sequence[int]

    @property
    def job(self) -> str:
        return f"{self.home.name}-{self.number}"  # its name: one for ever

    @property
    def partition(self) -> str:
        return f"p{self.number}"

    def node(self, which: int) -> str:
        return f"n{self.nodes[which - 1]}"

    @property
    def values(self) -> dict[str, str]:
        """What stands between braces in a row."""
        named = {name: f"n{number}" for name, number in zip(("first", "second", "third"), self.nodes, strict=False)}
        rack = f"rack{(self.nodes[0] - 1) // 8 + 1}"  # as the mini-cluster names them
        return named | {
            "part": self.partition, "also": f"also{self.number}", "rack": rack, "resv": f"r{self.number}",
        }  # fmt: skip


def partitions(rows: Sequence[Row], ground: Ground) -> str:
    """For --partitions of the mini-cluster."""
    numbers = [ground.nodes(i, len(rows)) for i, _ in enumerate(rows)]
    also = [(f"also{i}", ground.also(numbers[i])) for i, row in enumerate(rows) if row.speaks_of("{also}")]
    named = [*((f"p{i}", some) for i, some in enumerate(numbers)), *also]
    return ",".join(f"{name}=n[{','.join(map(str, some))}] OverSubscribe=YES" for name, some in named)


def cluster_for(rows: Sequence[Row], name: str, release: str, ground: Ground = FOUR_NODES) -> Minicluster:
    options = ("--partitions", partitions(rows, ground), "--users", USER, *ground.options(len(rows)))
    return Minicluster.up(name, release, *options)


def run_all(
    cluster: Minicluster,
    rows: Sequence[Row],
    home: Path,
    ground: Ground = FOUR_NODES,
    stays: Collection[int] = (),
    each: Callable[[], None] = lambda: None,
) -> dict[str, Got]:
    """What each row's job got, by the row's name. Nobody waits for the jobs in `stays`; `each` is called often."""
    with ExitStack() as stack:
        running = submit_all(stack, cluster, rows, home, ground)
        said = wait_all(cluster, running, stays, each)
    return got_of(cluster, rows, home, said)


def places(rows: Sequence[Row], home: Path, ground: Ground) -> list[Place]:
    return [Place(i, home, ground.nodes(i, len(rows))) for i, _ in enumerate(rows)]


def submit_all(
    stack: ExitStack, cluster: Minicluster, rows: Sequence[Row], home: Path, ground: Ground
) -> dict[str, subprocess.Popen[str]]:
    """The commands, by the row's name; what the rows speak of is there until the stack ends."""
    home.mkdir()
    home.chmod(0o777)
    for name, text in (("task", _TASK), ("half", _HALF), ("prog", f"* {home}/task {home}/multi-%t\n")):
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    running: dict[str, subprocess.Popen[str]] = {}
    for row, place in zip(rows, places(rows, home, ground), strict=True):
        words = stack.enter_context(_words(cluster, row, place, ground))
        running[row.name] = _submit(cluster, row, place, words, ground)
    return running


def got_of(
    cluster: Minicluster, rows: Sequence[Row], home: Path, said: Mapping[str, tuple[int, str]]
) -> dict[str, Got]:
    records = cluster.client("scontrol", "show", "job", "-o")
    return {row.name: read(home, i, records, *said[row.name]) for i, row in enumerate(rows)}


def wait_all(
    cluster: Minicluster,
    running: Mapping[str, subprocess.Popen[str]],
    stays: Collection[int] = (),
    each: Callable[[], None] = lambda: None,
    within: float = 150,
) -> dict[str, tuple[int, str]]:
    """Until no job is left, and those that their user held are released; each command's exit code and errors."""

    def all_gone() -> bool:
        ended = all(process.poll() is not None for process in running.values())  # first: one may submit meanwhile
        for job in cluster.client("squeue", "-h", "-o", "%i %r").splitlines():
            if job.endswith(" JobHeldUser"):
                cluster.client("scontrol", "release", job.split()[0], user=USER)
        each()
        left = set(cluster.client("squeue", "-h", "-o", "%i").split()) - set(map(str, stays))
        return ended and not left

    try:
        wait_for(all_gone, f"{cluster.release}: all rows have run", within)
    except AssertionError:  # what is left counts as cancelled: a difference, where it is one
        cluster.run("scancel", *cluster.client("squeue", "-h", "-o", "%i").split())
        wait_for(all_gone, f"{cluster.release}: no job is left", 60)
    finally:
        for process in running.values():
            process.kill()
    return {name: (process.returncode, process.communicate()[1].strip()) for name, process in running.items()}


@contextmanager
def _words(cluster: Minicluster, row: Row, place: Place, ground: Ground) -> Iterator[list[str]]:
    """The row's words with its place in them, and what they speak of made."""
    text = " ".join(row.words)
    values = place.values
    reservation = values["resv"]
    if "{file}" in text:
        values["file"] = str(place.home / f"{place.number}.nodes")
        Path(values["file"]).write_text(place.node(2) + "\n")
    if "{before}" in text:
        words = ("-p", place.partition, "-o", "/dev/null", "-J", "before", "--wrap", "true")
        values["before"] = cluster.client("sbatch", "--parsable", *words, user=USER).strip()
    if row.speaks_of("{resv}"):
        nodes = f"nodes={','.join(map(place.node, ground.reserves))}"
        when = ("starttime=now", "duration=60", "flags=ignore_jobs")
        what = (f"reservationname={reservation}", *when, f"users={USER}", nodes)
        cluster.client("scontrol", "create", "reservation", *what)
    try:
        yield text.format(**values).split() if "{" in text else row.words
    finally:
        if row.speaks_of("{resv}"):
            cluster.client("scontrol", "delete", f"reservation={reservation}")


def _submit(cluster: Minicluster, row: Row, place: Place, words: list[str], ground: Ground) -> subprocess.Popen[str]:
    ours = ["-J", place.job, *ground.said]
    if not {"-p", "--partition"} & set(words):
        ours += ["-p", place.partition]
    if row.command == "sbatch":
        ours += ["-o", "/dev/null"]
    script = place.home / f"{place.number}.sh"
    script.write_text(_script(row, place, [*ours, *words], ground.begins))
    script.chmod(0o755)
    o = f"{place.home}/{place.number}"
    program = [str(script)] if row.command != "srun" else [f"{place.home}/task", f"{o}.step1", f"{o}.job"]
    components = [] if row.in_script else [[*ours, *one.split()] for one in " ".join(words).split(" : ")]
    if row.command == "srun":
        options = [word for one in components for word in (":", *one, *program)][1:]
    else:
        options = [*[word for one in components for word in (":", *one)][1:], *program]
    entry = [str(cluster.bin / "in-cluster"), "--user", USER, "env", *row.environment]
    return subprocess.Popen(
        [*entry, row.command, *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/tmp",
    )  # fmt: skip


def _script(row: Row, place: Place, words: list[str], begins: str) -> str:
    steps = [step.replace("{prog}", f"{place.home}/prog") for step in row.steps or _USUAL]
    text = "\n".join(f"step {n} {step}" for n, step in enumerate(steps, 1)) + ("" if row.steps else _TWO)
    header = f"#SBATCH {shlex.join(words)}" if row.in_script else begins
    return (
        _SCRIPT.replace("HEADER", header)
        .replace("EXIT", str(EXIT))
        .replace("STEPS", text)
        .replace("HOME", str(place.home))
        .replace("NUMBER", str(place.number))
    )
