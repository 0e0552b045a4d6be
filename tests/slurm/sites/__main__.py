"""`python -m tests.slurm.sites --release 26.05 NAME ...`: what differs there."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.slurm.minicluster import Minicluster
from tests.slurm.sites.run import compare, differences
from tests.slurm.sites.table import SITES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default="26.05")
    parser.add_argument("--backend")
    parser.add_argument("--nodes", default="12")
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--crowds", default="")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    for name in asked.names or SITES:
        site = SITES[name]
        if asked.crowds:
            site = replace(
                site, crowds=tuple(c for c in site.crowds if any(w in c.name for w in asked.crowds.split(",")))
            )
        begun = time.monotonic()
        word = "".join(c if c.isalnum() else "-" for c in name)[:16]
        try:
            cluster = Minicluster.up(
                f"sites-{asked.release}-{word}", asked.release, "--nodes", asked.nodes, "--gpus", "4", *site.options
            )
        except AssertionError as error:
            print(f"=== {name}: not up: {str(error)[-400:]}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="pal-sites-") as home:
            Path(home).chmod(0o755)
            try:
                backend = asked.backend or ("pyslurm" if asked.release == "26.05" else "cli")
                alone, beside, log = compare(cluster, site, Path(home) / "x", backend)
                found = list(differences(alone, beside))
                print(f"=== {name} {asked.release}: {len(found)} differ, {time.monotonic() - begun:.0f} s", flush=True)
                for said in found:
                    print("   ", said)
                print(
                    "    waits",
                    {
                        row: (alone.rows[row].lag, got.lag)
                        for row, got in beside.rows.items()
                        if got.lag > alone.rows[row].lag + 3
                    },
                )
                print(
                    "    not run alone:",
                    [(row, got.states) for row, got in alone.rows.items() if set(got.states) != {"RUNNING"}],
                )
                print("    crowds", {k: (alone.crowds[k], v) for k, v in beside.crowds.items()})
                print("    edits", {k: dict(v) for k, v in beside.edits.items()}, flush=True)
                if asked.logs:
                    asked.logs.mkdir(exist_ok=True)
                    (asked.logs / f"{word}-{asked.release}.log").write_text(log)
            except AssertionError as error:
                print(f"=== {name}: failed: {str(error)[-1500:]}", flush=True)
            finally:
                cluster.down()
    return 0


sys.exit(main())
