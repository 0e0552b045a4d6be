"""The edits of waiting jobs that are compared with and without pald. Out: `cases_for(release, state)`.

One row a line, under a heading of docs/edits.md: what was submitted (one GPU, where nothing is said) and `|`, then what
somebody says to Slurm of the waiting job, one after the other between `;`: fields are for `scontrol update jobid=...`,
anything else is a command. `admin:` says it as root, its user does otherwise. Behind `/` stands what is said once there
is room, so that the job can start at all; behind `anywhere`, that the nodes which it
names leave a choice; behind `@` the states in which it is tried, all of them if none is named;
behind `only` the releases, behind `but` the name of an exception of compare.py.

{job}: the job, {part}: its partition, {also}: one with its second node alone, {first} {second}: its nodes, {ahead}: a
job that runs until there is room, {resv}: a reservation of its second node. A node has the feature `odd` or `even`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from tests.slurm.shapes.options import RELEASES
from tests.slurm.shapes.rows import Row

STATES = {
    "a": "leased: its nodes are full",
    "b": "let go: it waits in Slurm's own queue",
    "c": "pinned, and somebody else has its GPUs now",
    "d": "an array of which one task runs",
    "e": "just requeued",
}
PARTS = 5  # of each state: so many run at once
PLAIN = "--gres=gpu:1"
TABLE = """
## Whose it is, and what it is called
Account=second
Account=nosuch
Name=other
Comment=mine
Comment=app:fast
Comment=pal:off
Extra=mine only 24.11 26.05
WCKey=other
MailType=END MailUser=bob
admin: AdminComment=energy
AdminComment=energy
admin: UserID=bob
UserID=bob
StdOut=/dev/zero
StdErr=/dev/zero StdIn=/dev/zero only 24.11 26.05
WorkDir=/
Clusters=other
ClusterFeatures=other
BurstBuffer=#DW
## How many GPUs
Gres=gpu:2
Gres=gpu:g2:1 but pinned
TresPerNode=gres:gpu:2
TresPerNode=gres:gpu:9 / scancel {job}
TresPerNode=gres:gpu:a100:1 / scancel {job}
TresPerNode= but pinned
TresPerJob=gres:gpu:2 but pinned
--gpus=1 | TresPerJob=gres:gpu:3
--gpus=2 | TresPerNode=gres:gpu:2 but pinned
--gpus=2 | TresPerJob=gres:gpu:1
-n2 --gpus-per-task=1 | TresPerTask=gres:gpu:2
-n2 --gpus-per-task=1 | NumTasks=3 but pinned
TresPerSocket=gres:gpu:1
MemPerTres=gres:gpu:500
CpusPerTres=gres:gpu:2
TresBind=gres/gpu:none
TresFreq=gpu:low
## How many nodes, tasks and CPUs, how much memory
NumNodes=2
NumNodes=1-2
NumNodes=3 / scancel {job}
-N2 --gres=gpu:1 | NumNodes=1
-N1-2 --gpus=2 | NumNodes=2-2
NumTasks=2
-n2 --gres=gpu:2 | NumTasks=1 but pinned
--gpus=4 | NumTasks=2 NumNodes=2 @abe but split
--gpus=2 | NumTasks=2 NumNodes=2 but pinned
NumCPUs=3
NumCPUs=2-4
ReqProcs=3
MinCPUsNode=5
CPUsPerTask=2
TasksPerNode=2
ReqSockets=1
ReqCores=2
ReqThreads=1
CoreSpec=1
admin: CoreSpec=1
ThreadSpec=1
MinMemoryNode=700
MinMemoryNode=0
MinMemoryCPU=300
MinTmpDiskNode=0
MinTmpDiskNode=999999 / MinTmpDiskNode=0
OverSubscribe=no
OverSubscribe=yes
--exclusive --gres=gpu:1 | OverSubscribe=yes
Contiguous=yes
Switches=1@10
-N2 --gres=gpu:1 | Switches=1@00:05
## Which nodes
ReqNodeList={second} but pinned
ReqNodeList={first}
ReqNodeList={second}; ReqNodeList= anywhere
ReqNodeList=nosuch anywhere
ReqNodeList={first},{second} NumNodes=2
-w {second} --gres=gpu:1 | ReqNodeList={first}
-w {second} --gres=gpu:1 | ReqNodeList= anywhere
ExcNodeList={first}
ExcNodeList={second}
ExcNodeList={first},{second} / ExcNodeList= anywhere
-x {first} --gres=gpu:1 | ExcNodeList={second}
-x {first} --gres=gpu:1 | ExcNodeList= anywhere
Features=even
Features=odd
Features=odd|even anywhere
Features=nosuch / Features=
-C odd --gres=gpu:1 | Features=even
-C odd --gres=gpu:1 | Features= anywhere
Prefer=odd
Prefer=even
--prefer=odd --gres=gpu:1 | Prefer=even
--prefer=odd --gres=gpu:1 | Prefer= anywhere
Partition={also}
Partition={part},{also} anywhere
Partition=nosuch
admin: ReservationName={resv} @abde
ReservationName={resv} @abde
ReservationName=nosuch
Licenses=matlab:1
Licenses=nosuch:1
## When
StartTime=now
StartTime=now+20
StartTime=now+2hours / StartTime=now
EligibleTime=now+2hours / EligibleTime=now
StartTime=now+2hours; StartTime=now
--begin=now+1hour --gres=gpu:1 | StartTime=now @abc
EndTime=now+1hour
Deadline=now+1hour
Deadline=now+8minutes
Deadline=2020-01-01
TimeLimit=3
TimeLimit=20
TimeLimit=+2
TimeLimit=-2
TimeLimit=UNLIMITED
TimeMin=1
TimeMin=1; TimeLimit=4
Dependency=afterany:{ahead} @abc
Dependency=singleton
Dependency=afterok:999999
Dependency=afterany:{ahead}; Dependency= @abc
DelayBoot=30
Reboot=yes
Reboot=no
Requeue=0
Requeue=1
hold {job} / release {job}
uhold {job} / release {job}
hold {job}; release {job}
admin: hold {job} / admin: release {job}
admin: hold {job}; release {job} / admin: release {job}
requeue {job}
requeuehold {job} / release {job}
admin: suspend {job}
release {job}
resume {job}
Nice=100
Nice=-100
admin: Nice=-100
Priority=5
admin: Priority=500
admin: Priority=0 / admin: release {job}
admin: SiteFactor=5
SiteFactor=5
top {job}
ResetAccrueTime
QOS=long
QOS=nosuch
QOS=urgent
ArrayTaskThrottle=1
## Several at once
TimeLimit=3 Features=even Nice=5
TimeLimit=3 Features=nosuch Nice=5 / Features=
TimeLimit=3 Account=nosuch
NumTasks=2 CPUsPerTask=2 MinMemoryCPU=200
ReqNodeList={second} TresPerNode=gres:gpu:2 NumCPUs=2 but pinned
TimeLimit=3; TimeLimit=4; Features=even; Features= anywhere
hold {job}; ReqNodeList={second} TimeLimit=3; release {job} but pinned
StartTime=now ReqNodeList={second} but pinned
StartTime=now TimeLimit=3
## Arrays
--array=0-2 --gres=gpu:1 | update jobid={job}_[1-2] TimeLimit=3
--array=0-2 --gres=gpu:1 | update jobid={job}_2 Features=even anywhere
--array=0-2 --gres=gpu:1 | update jobid={job}_2 ReqNodeList={second} TimeLimit=3 anywhere but pinned
--array=0-2 --gres=gpu:1 | update jobid={job}_1 TresPerNode=gres:gpu:2
--array=0-2 --gres=gpu:1 | update jobid={job}_7 TimeLimit=3
--array=0-2 --gres=gpu:1 | update jobid={job}_[1-2] StartTime=now+2hours / update jobid={job}_[1-2] StartTime=now
--array=0-2 --gres=gpu:1 | hold {job}_2 / release {job}_2
--array=0-2 --gres=gpu:1 | admin: hold {job} / admin: release {job}
--array=0-2 --gres=gpu:1 | scancel {job}_1
--array=0-2 --gres=gpu:1 | scancel {job}_[1-2]
--array=0-2 --gres=gpu:1 | scancel --state=PENDING {job}
--array=0-2%1 --gres=gpu:1 | ArrayTaskThrottle=2
--array=0-2%1 --gres=gpu:1 | ArrayTaskThrottle=0
--array=0-2 --gres=gpu:1 | ArrayTaskThrottle=1; update jobid={job}_2 Nice=7
--array=0-2 --gres=gpu:1 | update jobid={job}_2 Comment=pal:off; update jobid={job}_1 TimeLimit=4
"""


@dataclass(frozen=True)
class Say:
    """One thing that is said of the job."""

    words: tuple[str, ...]
    as_admin: bool = False


@dataclass(frozen=True)
class Case(Row):
    """A Row that is submitted, and what is said of it while it waits."""

    edits: tuple[Say, ...] = ()
    after: tuple[Say, ...] = ()  # once there is room
    state: str = "a"
    states: str = ""  # in which it is tried
    anywhere: bool = False  # nothing that is said leaves it one choice of nodes

    @property
    def name(self) -> str:
        return f"{self.state}: {self.line}"

    @property
    def line(self) -> str:
        submitted = "" if self.text == PLAIN or self.text == f"{PLAIN} --array=0-2" else f"{self.text} | "
        return submitted + _in_words(self.edits) + (f" / {_in_words(self.after)}" if self.after else "")

    def speaks_of(self, word: str) -> bool:
        return super().speaks_of(word) or any(word in text for say in (*self.edits, *self.after) for text in say.words)


def _in_words(says: tuple[Say, ...]) -> str:
    return "; ".join(("admin: " if say.as_admin else "") + " ".join(say.words) for say in says)


def _said(text: str) -> tuple[Say, ...]:
    parts = [part.strip() for part in text.split(";")] if text else []
    return tuple(Say(tuple(part.removeprefix("admin: ").split()), part.startswith("admin: ")) for part in parts)


def read_cases(table: str) -> Iterator[Case]:
    topic = ""
    for line in table.strip().splitlines():
        if line.startswith("## "):
            topic = line[3:]
            continue
        found = re.fullmatch(
            r"(?:(-.+?) \| )?(.+?)(?: / (.+?))?(?: (anywhere))?(?: @([a-e]+))?(?: only ([\d. ]+?))?(?: but ([\w-]+))?",
            line,
        )
        assert found, line
        only = tuple(found[6].split()) if found[6] else RELEASES
        yield Case(
            topic, found[1] or PLAIN, ("",), "", only, found[7] or "", _said(found[2]), _said(found[3] or ""),
            states=found[5] or _states(found[1] or ""), anywhere=bool(found[4]),
        )  # fmt: skip


def _states(submitted: str) -> str:
    """In (d) there is room for one GPU, and in (e) all that was submitted has run."""
    if "--array" in submitted:
        return "abcd"
    return "abce" if submitted else "".join(STATES)


@cache
def all_cases() -> tuple[Case, ...]:
    cases = tuple(read_cases(TABLE))
    assert len({case.line for case in cases}) == len(cases), "a row twice"
    return cases


def cases_for(release: str, state: str) -> list[Case]:
    mine = [case for case in all_cases() if release in case.only and state in case.states]
    return [_in_state(case, state) for case in mine]


def a_part(release: str, state: str, part: int) -> list[Case]:
    return cases_for(release, state)[part::PARTS]


def _in_state(case: Case, state: str) -> Case:
    text = f"{PLAIN} --array=0-2" if state == "d" and case.text == PLAIN else case.text
    return replace(case, state=state, text=text)
