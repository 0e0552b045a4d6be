"""What a believable value is. In: nothing. Out: bounds; outside of them the unit is wrong or somebody made it up.

The hint names the commonest mistake: NVML itself speaks of milliwatts and of percent.
"""

from __future__ import annotations

EARLIEST = 1_577_836_800.0  # 2020-01-01: a node whose clock says less has lost its battery
FUTURE_S = 3_600.0  # clocks of a cluster agree to seconds; an hour is no drift
SECONDS = (1e-9, 86_400.0)
POWER_W = (0.0, 5_000.0)
TEMPERATURE_C = (-50.0, 200.0)
CLOCK_MHZ = (0.0, 20_000.0)
MEMORY_MIB = (1, 10_000_000)
SHARE = (0.0, 1.0)
SLOT = (0, 255)
COUNT = (0, 2**63 - 1)
USER = (0, 2**32 - 1)
STEPS = (1, 10**9)
REDUCED_BYTES = (4, 2**36)
SPREAD = (0.0, 10.0)

IN_EPOCH_MS = "it looks like milliseconds; seconds since 1970 are wanted"
IN_MW = "it looks like milliwatts; watts are wanted"
IN_HZ = "megahertz are wanted"
IN_PERCENT = "a share from 0 to 1 is wanted, not percent"
IN_S = "seconds are wanted"

MIB = 2**20
MOST_BYTES_OF = {  # a document, by its kind; a night of one node is kilobytes
    "inventory": 1 * MIB,
    "bench": 4 * MIB,
    "import": 16 * MIB,  # may hold a whole fleet
    "job": 8 * MIB,  # half an hour of one job: 20,000 lines of steps
    "all-reduce": 1 * MIB,
}
MOST_BYTES = max(MOST_BYTES_OF.values())
MOST_TOOL_BYTES = 64 * MIB  # what another tool printed, for pal-probe import
MOST_DEVICES = 20_000  # an import may hold a whole fleet
MOST_RUNS = 1_000_000
MOST_LINES = 500_000
MOST_RANKS = 1024
MOST_SIZES = 64
