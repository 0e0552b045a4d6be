"""Who has a limit on GPUs that parts of them do not count against. In: Slurm's commands. Out: Unlimited.

sacctmgr tells limits of associations and QOS, alike on all releases that have parts. A limit that names gres/shard
beside gres/gpu was set by somebody who knows of parts, and counts them. What can't be understood limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pal_slurm.model.gpu_limits import NOBODY_LIMITED, Unlimited
from pal_slurm.slurm.commands.cluster import read_config, read_qos_of_partitions
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.shares import DEEPEST, ROOT

HOLDING = frozenset({"limits", "qos", "safe", "all"})  # of AccountingStorageEnforce
OF_ASSOC = "grptres,grptresmins,grptresrunmins,maxtres,maxtresmins,maxtrespernode"
TREE = ("show", "assoc", f"format=account,user,parentname,{OF_ASSOC}", "-P")
QOS = ("show", "qos", "-P")


def unlimited(commands: Commands, cluster: str) -> Unlimited:
    """SlurmUnavailable where that can't be known."""
    settings = read_config(commands.read("scontrol", ("show", "config")))
    if HOLDING.isdisjoint(settings.get("AccountingStorageEnforce", "").lower().split(",")):
        return NOBODY_LIMITED
    tree = commands.read("sacctmgr", (*TREE, "where", f"cluster={cluster}"))
    qos = free_qos(commands.read("sacctmgr", QOS))
    own = read_qos_of_partitions(commands.read("scontrol", ("show", "partition", "-o")))
    partitions = frozenset(name for name, its in own.items() if not its or its in qos)
    return Unlimited(True, free_users(tree), qos, partitions)


def free_users(answer: bytes) -> frozenset[tuple[str, str]]:
    """Users whose association, account and all accounts above it have no such limit."""
    above: dict[str, str] = {}
    users: set[tuple[str, str]] = set()
    bound: set[tuple[str, str]] = set()  # user "": the account itself
    for row in _rows(answer):
        account, user = row.get("Account", ""), row.get("User", "")
        if _limits(row):
            bound.add((account, user))
        if user:
            users.add((account, user))
        else:
            above[account] = row.get("Par Name") or row.get("ParentName") or ROOT
    accounts = {account for account in above if _is_free(account, above, bound)}
    return frozenset(who for who in users - bound if who[0] in accounts)


def _is_free(account: str, above: Mapping[str, str], bound: Collection[tuple[str, str]]) -> bool:
    for _ in range(DEEPEST):
        if account not in above or (account, "") in bound:
            return False
        if account == ROOT:
            return True
        account = above[account]
    return False


def free_qos(answer: bytes) -> frozenset[str]:
    return frozenset(row["Name"] for row in _rows(answer) if row.get("Name") and not _limits(row))


def _limits(row: Mapping[str, str]) -> bool:
    """Whether one of its limits names GPUs, and not parts of them too."""
    texts = (text.lower() for key, text in row.items() if "TRES" in key)
    named = ([item.partition("=")[0].partition(":")[0] for item in text.split(",")] for text in texts)
    return any("gres/gpu" in names and "gres/shard" not in names for names in named)


def _rows(answer: bytes) -> Iterator[Mapping[str, str]]:
    """By the names of their columns; a line of another width is none."""
    lines = answer.decode("utf-8", "replace").splitlines()
    head = lines[0].split("|") if lines else []
    for line in lines[1:]:
        fields = line.split("|")
        if len(fields) == len(head):
            yield dict(zip(head, fields, strict=True))
