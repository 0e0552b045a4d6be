"""Who is to get how much, as sacctmgr tells it, and deadlines. In: Slurm's commands. Out: FairShares.

An account's part is the product of its shares over its siblings', from the root of the tree down. A site without
slurmdbd has no tree: then everybody counts the same. What can't be read is passed over; nobody is ever divided by 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import FairShares
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.words import digits, plain

ROOT = "root"
DEEPEST = 64  # a tree that is deeper goes round in a ring
TREE = ("show", "assoc", "format=account,user,parentname,share", "-P", "-n")
QOS = ("show", "qos", "format=name,priority", "-P", "-n")
DEADLINES = ("-a", "-h", "-t", "PENDING,RUNNING", "-O", "JobId:12,Deadline:24")


def fair_shares(commands: Commands, cluster: str) -> FairShares:
    """`untold` without slurmdbd; deadlines are slurmctld's own, so they are known all the same."""
    tree, qos, untold = b"", b"", ""
    try:
        tree = commands.read("sacctmgr", (*TREE, "where", f"cluster={cluster}"))
        qos = commands.read("sacctmgr", QOS)
    except SlurmUnavailable as error:
        untold = plain(str(error))
    told, deadlines = read_tree(tree), read_deadlines(commands.read("squeue", DEADLINES))
    return FairShares(told.accounts, told.users, read_qos(qos), deadlines, untold=untold)


def read_tree(answer: bytes) -> FairShares:
    raw: dict[str, float] = {}
    above: dict[str, str] = {}
    users: dict[tuple[str, str], float] = {}
    for account, user, parent, share in _rows(answer, 4):
        shares = float(share) if digits(share) else None  # `parent`: as one with the account
        if not account:
            continue
        if user:
            users[account, user] = 1.0 if shares is None else shares
        elif account != ROOT:
            raw[account], above[account] = 1.0 if shares is None else shares, parent or ROOT
    siblings: dict[str, float] = defaultdict(float)
    for account, parent in above.items():
        siblings[parent] += raw[account]
    parts = {account: _part(account, raw, above, siblings) for account in raw}
    return FairShares({name: part for name, part in parts.items() if part is not None}, _over_mean(users))


def _part(
    account: str, raw: Mapping[str, float], above: Mapping[str, str], siblings: Mapping[str, float]
) -> float | None:
    """None: it hangs on nothing, or on itself."""
    part = 1.0
    for _ in range(DEEPEST):
        if account == ROOT:
            return part
        if account not in raw:
            return None
        parent = above[account]
        part *= raw[account] / siblings[parent] if siblings[parent] else 0.0
        account = parent
    return None


def _over_mean(users: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    of: dict[str, list[float]] = defaultdict(list)
    for (account, _), shares in users.items():
        of[account].append(shares)
    mean = {account: sum(shares) / len(shares) for account, shares in of.items()}
    return {key: shares / mean[key[0]] if mean[key[0]] else 1.0 for key, shares in users.items()}


def read_qos(answer: bytes) -> dict[str, float]:
    told = {name: float(priority) for name, priority in _rows(answer, 2) if name and digits(priority)}
    most = max(told.values(), default=0.0)
    return {name: 1.0 + priority / most for name, priority in told.items()} if most else {}


def read_deadlines(answer: bytes) -> dict[int, int]:
    """Times are epoch seconds (`Commands` sees to it); N/A: it has none."""
    found = {}
    for line in answer.decode("ascii", "replace").splitlines():
        job, time = line[:12].strip(), line[12:].strip()
        if digits(job) and digits(time) and int(time):
            found[int(job)] = int(time)
    return found


def _rows(answer: bytes, width: int) -> Iterator[tuple[str, ...]]:
    """Names of accounts and users hold no bar; a line with more or fewer is none of these."""
    for line in answer.decode("utf-8", "replace").splitlines():
        fields = tuple(field.strip() for field in line.split("|"))
        if len(fields) == width:
            yield fields
