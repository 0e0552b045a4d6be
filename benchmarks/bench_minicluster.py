"""How fast real Slurm clusters start and stop: prints a table, exit code 1 when a limit is missed.

    .venv/bin/python benchmarks/bench_minicluster.py [--runs 3] [--releases 22.05 24.11 26.05]

In: this machine, with the releases' roots already built. Out: for each release and size the median and the worst time
of `minicluster up` (until all nodes are idle), the median of `down`, and what DIR/bin/* adds to a command.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / "scripts" / "minicluster"
RELEASES = {"22.05": "native", "24.11": "24.11", "26.05": "26.05"}
# nodes (of 4 GPUs each) -> seconds that `up` may take
LIMITS = {8: 3.0, 64: 15.0}


def timed(*argv: str) -> float:
    begun = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: {done.stderr}")
    return time.monotonic() - begun


def measure(release: str, nodes: int, runs: int) -> tuple[list[float], list[float], float]:
    """Times of `up`, of `down`, and of `true` inside the cluster beyond `true` outside."""
    name = f"bench{os.getpid()}"
    ups, downs, wrapped = [], [], 0.0
    for _ in range(runs):
        until = ("--until-gone", str(os.getpid()))
        ups.append(timed(str(TOOL), "up", "--name", name, "--slurm", RELEASES[release], "--nodes", str(nodes), *until))
        listed = subprocess.run([TOOL, "list"], capture_output=True, text=True, check=True).stdout
        fields = next(line.split("  ") for line in listed.splitlines() if line.startswith(f"name={name} "))
        home = Path(dict(field.split("=", 1) for field in fields)["directory"])
        entry = str(home / "bin" / "in-cluster")
        bare = statistics.median(timed("true") for _ in range(50))
        wrapped = statistics.median(timed(entry, "true") for _ in range(50)) - bare
        downs.append(timed(str(TOOL), "down", "--name", name))
    return ups, downs, wrapped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=list(RELEASES))
    options = parser.parse_args()
    missed = False
    print("| Slurm | nodes | GPUs | up, median | up, worst | limit | down, median | wrapper |")
    print("|---|---|---|---|---|---|---|---|")
    for release in options.releases:
        for nodes, limit in LIMITS.items():
            ups, downs, wrapped = measure(release, nodes, options.runs)
            missed |= max(ups) > limit
            print(
                f"| {release} | {nodes} | {4 * nodes} | {statistics.median(ups):.2f} s | {max(ups):.2f} s "
                f"| {limit:.0f} s{' MISSED' if max(ups) > limit else ''} | {statistics.median(downs):.2f} s "
                f"| {1000 * wrapped:.1f} ms |",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
