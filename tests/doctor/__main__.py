"""`python -m tests.doctor`: the table of docs/doctor.md. In: the wrong sites. Out: what palctl doctor says of each."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pal_slurm.doctor.advice import Advice, Health
from tests.doctor.tree import Tree
from tests.doctor.wrong import WRONG


def table() -> str:
    rows = ["| | what is wrong | check | the line to add, and where |", "|---|---|---|---|"]
    for number, wrong in enumerate(WRONG, 1):
        with tempfile.TemporaryDirectory() as home:
            tree = Tree(Path(home))
            wrong.make(tree)
            [found] = [one for one in tree.examined() if one.advice.health is Health.MEND]
            rows.append(f"| {number} | {wrong.what} | {found.check} | {_line(found.advice, tree)} |")
    return "\n".join(rows) + "\n"


def _line(advice: Advice, tree: Tree) -> str:
    where = f"; {advice.where}" if advice.where else ""
    return f"`{advice.add}`{where}".replace(str(tree.root), "").replace("|", "\\|")


if __name__ == "__main__":
    print(table(), end="")
