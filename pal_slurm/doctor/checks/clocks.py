"""Does this host's clock agree with slurmctld's? In: a Site. Out: advice. Leases are begin times: seconds count."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, ok
from pal_slurm.doctor.site import Site

STEP = 60
TITLE = "clocks"
MOST_S = 3.0  # a lease's margin, lease.margin_s, is as long
_AT = re.compile(r"^sdiag output at .*\(([0-9]{9,11})\)\s*$", re.MULTILINE)


def look(site: Site) -> Iterator[Advice]:
    if site.commands is None or not site.running:
        return
    before = time.time()
    text, _ = site.answer("sdiag", [])
    after = time.time()
    told = _AT.search(text)
    if told is None:
        return
    there = float(told[1])
    ahead = there - after if there > after else min(0.0, there + 1 - before)  # whole seconds, and the way there
    if abs(ahead) > MOST_S:
        word = "ahead of" if ahead > 0 else "behind"
        yield mend(f"slurmctld's clock is {abs(ahead):.0f} s {word} this host's: leases end too early or too late",
                   "chronyc makestep", "on the host that is wrong", "systemctl enable --now chronyd")  # fmt: skip
    else:
        yield ok("this host and slurmctld agree on the time")
