"""What `scontrol update jobid=` takes. Out: `FIELDS`; of these, the ones that no row holds, each with its reason.

The names of the man page of scontrol (JOBS - SPECIFICATIONS FOR UPDATE COMMAND), and those that its program knows
beside them (`strings scontrol`) of 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.slurm.verdicts.manual import entries

_NAMES = """
    Account AdminComment ArrayTaskThrottle BurstBuffer CPUsPerTask ClusterFeatures Clusters Comment Contiguous
    CoreSpec CpusPerTres Deadline DelayBoot Dependency EligibleTime EndTime ExcNodeList Extra Features Gres
    JobId JobName Licenses MailType MailUser MCSLabel MemPerTres MinCPUsNode MinMemoryCPU MinMemoryNode
    MinTmpDiskNode Name Nice NodeList NumCPUs NumNodes NumTasks OverSubscribe Partition Prefer Priority QOS
    Reboot ReqCores ReqNodeList ReqNodes ReqProcs ReqSockets ReqThreads Requeue ReservationName ResetAccrueTime
    Shared SiteFactor StartTime StdErr StdIn StdOut Switches TasksPerNode ThreadSpec TimeLimit TimeMin TresBind
    TresFreq TresPerJob TresPerNode TresPerSocket TresPerTask UserID WCKey WorkDir
"""
FIELDS = frozenset(_NAMES.split())
APART = {
    "another word for one that a row holds": "JobName NodeList ReqNodes Shared",
    "says which job is meant": "JobId",
    "needs a plugin that no cluster here has": "MCSLabel",
}


def apart() -> frozenset[str]:
    return frozenset(name for names in APART.values() for name in names.split())


def of_page(page: Path) -> set[str]:
    """The fields of a man page of scontrol: the bold word of each entry of that section."""
    bold = (re.match(r"\\fB([A-Z][A-Za-z]+)\\fR", line) for line in entries(page, "JOBS - SPECIFICATIONS FOR UPDATE"))
    return {word[1] for word in bold if word}
