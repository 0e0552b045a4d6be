"""Which QOS may preempt. In: Slurm's commands. Out: their names.

slurmctld's own lists (`scontrol show assoc_mgr`) don't say on any release; sacctmgr does, alike on all. It is asked
only where PreemptType is preempt/qos, so never on a site without slurmdbd. Who uses the names checks them.
"""

from __future__ import annotations

from pal_slurm.slurm.commands.run import Commands


def preempting(commands: Commands) -> tuple[str, ...]:
    """SlurmUnavailable where that can't be known."""
    config = commands.read("scontrol", ("show", "config")).decode("utf-8", "replace")
    lines = (line.partition("=") for line in config.splitlines())
    if not any(key.strip() == "PreemptType" and value.strip() == "preempt/qos" for key, _, value in lines):
        return ()
    told = commands.read("sacctmgr", ("show", "qos", "format=name,preempt", "-P", "-n")).decode("utf-8", "replace")
    rows = (line.partition("|") for line in told.splitlines())
    return tuple(sorted(name for name, bar, victims in rows if bar and name and victims.strip()))
