"""`palctl simulate` with more policies: python -m benchmarks.published TRACE [OPTIONS]. Which: policies.py.

In: every option of `palctl simulate`. Out: the same table, and by --json the same JSON.
"""

from __future__ import annotations

import sys

from benchmarks.published.policies import Published
from pal_slurm.cli.commands.simulate import command
from pal_slurm.cli.say import complain
from pal_slurm.errors import PalError

PROGRAM = "python -m benchmarks.published"


def main() -> None:
    try:
        command.main(prog_name=PROGRAM, obj=Published())
    except PalError as error:
        complain(PROGRAM, error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
