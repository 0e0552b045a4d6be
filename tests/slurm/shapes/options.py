"""What Slurm's man pages list. In: options.txt. Out: which release and command knows which option.

options.txt holds a line per release and command: every long option under OPTIONS of its man page, as
`python -m tests.slurm.shapes.options RELEASE PAGE...` prints it. `APART` are those that no row holds, each with its
reason; a test asks that every other option is in a row.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.slurm.verdicts.manual import entries

RELEASES = ("22.05", "24.11", "26.05")
LISTS = Path(__file__).with_name("options.txt")
SHORT = {
    "-A": "--account", "-a": "--array", "-B": "--extra-node-info", "-C": "--constraint", "-c": "--cpus-per-task",
    "-d": "--dependency", "-G": "--gpus", "-H": "--hold", "-I": "--immediate", "-i": "--input", "-J": "--job-name",
    "-K": "--kill-on-bad-exit", "-m": "--distribution", "-N": "--nodes", "-n": "--ntasks", "-O": "--overcommit",
    "-p": "--partition", "-Q": "--quiet", "-r": "--relative", "-S": "--core-spec", "-s": "--oversubscribe",
    "-t": "--time", "-W": "--wait", "-w": "--nodelist", "-x": "--exclude",
}  # fmt: skip
APART = {
    "what the job is called, and whose it is": "comment extra gid job-name mcs-label uid",
    "where its output goes, and who hears of it": "bell no-bell error input output open-mode label unbuffered pty x11 "
    "mail-type mail-user parsable quiet verbose msg-timeout disable-status quit-on-interrupt",
    "files and directories of the job": "bcast bcast-exclude compress send-libs chdir container container-id "
    "container-type ignore-pbs wrap",
    "what the job inherits of its surroundings": "export export-file get-user-env propagate preserve-env",
    "asks the program itself": "help usage version",
    "other clusters: pald looks after one": "clusters cluster-constraint",
    "a burst buffer, which no cluster here has": "bb bbf",
    "measures a job while it runs": "acctg-freq profile",
    "programs beside a task": "epilog prolog task-epilog task-prolog slurmd-debug",
    "how srun or salloc itself starts, ends and talks": "threads treewidth async kill-command ignore-signals "
    "wait-for-children no-shell",
    "root alone, past the scheduler": "no-allocate",
}


@cache
def _lists() -> dict[tuple[str, str], frozenset[str]]:
    found = {}
    for line in LISTS.read_text(encoding="utf-8").splitlines():
        release, command, *names = line.split()
        found[release, command] = frozenset(names)
    return found


def listed(release: str, command: str) -> frozenset[str]:
    return _lists()[release, command]


def apart() -> dict[str, str]:
    """Option -> why no row holds it."""
    return {f"--{name}": why for why, names in APART.items() for name in names.split()}


def long_options(words: Iterable[str]) -> set[str]:
    """The options among these words, by their long names."""
    words = list(words)
    long = {word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2}
    return long | {SHORT[word[:2]] for word in words if re.match(r"-[A-Za-z]", word)}


def knows(release: str, command: str, options: Iterable[str]) -> bool:
    return set(options) <= listed(release, command)


def of_page(page: Path) -> set[str]:
    """The long options of a man page: the bold words of each entry under OPTIONS."""
    bold = (re.findall(r"\\fB(.*?)\\f[RI]", line) for line in entries(page, "OPTIONS") if line.startswith("\\fB-"))
    return {name for words in bold for name in re.findall(r"--[a-z][a-z0-9-]+", " ".join(words))}


if __name__ == "__main__":  # a line of options.txt for each page: RELEASE PAGE...
    for name in sys.argv[2:]:
        print(sys.argv[1], Path(name).name.split(".")[0], *sorted(of_page(Path(name))))
