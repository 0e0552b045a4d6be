"""What runs in a child process. In: an order on the command line and on standard input. Out: JSON lines.

list SOURCE FIRST                the devices from number FIRST on
sample SOURCE INTERVAL INDICES   what each of them says, again and again until standard input closes
kernel                           prepare and run kernels as told on standard input
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TextIO

from pal_slurm.probe.devices import DeviceSource, open_source
from pal_slurm.probe.errors import DeviceLost, NotOurs, ProbeError


def main(arguments: list[str]) -> int:
    # What a library prints on standard output must not get between our lines
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(record: dict[str, object]) -> None:
        out.write(json.dumps(record) + "\n")
        out.flush()

    order, *rest = arguments
    try:
        if order == "list":
            _list(rest[0], int(rest[1]), say)
        elif order == "sample":
            _sample(rest[0], float(rest[1]), [int(i) for i in rest[2].split(",")], say)
        else:
            _kernel(sys.stdin, say)
    except ProbeError as error:
        say({"refused": str(error), "exit_code": error.exit_code})
        return error.exit_code
    return 0


Say = Callable[[dict[str, object]], None]


def _list(name: str, first: int, say: Say) -> None:
    source = open_source(name)
    count = source.count()
    say({"count": count, "runs_on": source.runs_on})
    for index in range(first, count):
        try:
            say({"index": index, "device": asdict(source.device(index))})
        except DeviceLost as error:
            say({"index": index, "fault": str(error)})
        except NotOurs as error:
            say({"index": index, "not_ours": str(error)})
    source.close()


def _sample(name: str, interval: float, indices: list[int], say: Say) -> None:
    source = open_source(name)
    due = time.monotonic()
    while True:
        for index in indices:
            _sample_one(source, index, say)
        due = max(due + interval, time.monotonic())
        if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
            source.close()
            return


def _sample_one(source: DeviceSource, index: int, say: Say) -> None:
    try:
        sample = source.sample(index)
    except DeviceLost as error:
        say({"index": index, "fault": str(error)})
        return
    say({"index": index, "sample": {k: v for k, v in asdict(sample).items() if v is not None}})


def _kernel(orders: TextIO, say: Say) -> None:
    from pal_slurm.probe.serving import serve

    serve(orders, say)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
