"""`python -m tests.fuzz`, or scripts/fuzz: many worlds, judged. In: seeds, hours. Out: a progress line, a report.

The report is a file of each failing script, shrunk, that `--replay` and tests/fuzz/found take as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import mutants
from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict
from tests.fuzz.script import Script, read
from tests.fuzz.shrink import shrink
from tests.fuzz.trial import Court, court


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="pald in simulated time under drawn faults.")
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (200)")
    parser.add_argument("--hours", type=float, help="for so long instead")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--into", type=Path, default=Path("fuzz-found"), help="where failing scripts go (fuzz-found)")
    parser.add_argument("--digest", action="store_true", help="print a digest of all that happened in these worlds")
    parser.add_argument("--replay", type=Path, help="one script, from a file")
    parser.add_argument("--show", type=int, help="print the script of one seed")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="seeds until each broken pald is caught")
    asked = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)  # pald tells each trouble; here they are drawn
    if asked.show is not None:
        print(draw(asked.show), end="")
        return 0
    with court() as at:
        if asked.mutants is not None:
            return mutants.table(at, asked.mutants or list(mutants.MUTANTS), asked.first, asked.seeds)
        if asked.replay is not None:
            return _said(at.tried(read(asked.replay.read_text())))
        digest = hashlib.sha256()
        if asked.digest:
            at.told = lambda history: digest.update(history.encode())
        ended = _run(at, asked.first, asked.seeds, asked.hours, asked.into)
        if asked.digest:
            print(f"sha256 of their histories: {digest.hexdigest()}")
        return ended


def _said(verdicts: Sequence[Verdict]) -> int:
    for verdict in verdicts:
        print(verdict)
    print("nothing is broken" if not verdicts else f"{len(verdicts)} rules broken")
    return 1 if verdicts else 0


def _run(at: Court, first: int, seeds: int, hours: float | None, into: Path) -> int:
    began, cpu = time.monotonic(), time.process_time()
    failed: dict[str, int] = {}
    seed = first
    while seed < first + seeds if hours is None else time.monotonic() - began < 3600 * hours:
        if verdicts := at.tried(draw(seed)):
            rule = verdicts[0].rule
            failed[rule] = failed.get(rule, 0) + 1
            print(f"\nseed {seed}: {verdicts[0]}")
            if failed[rule] == 1:
                _keep(at, seed, verdicts[0], into)
        seed += 1
        done = seed - first
        each = (time.process_time() - cpu) / done
        if sys.stderr.isatty() or done % 100 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            said = f"{done} worlds, {each * 1000:.0f} ms of CPU each, {sum(failed.values())} failed"
            print(said, end=end, file=sys.stderr)
    done = seed - first
    each = (time.process_time() - cpu) / max(done, 1)
    print(f"{done} worlds from seed {first}: {sum(failed.values())} failed; {each:.3f} CPU-s each")
    for rule, times in sorted(failed.items()):
        print(f"  {rule}: {times}, the first one shrunk in {into}")
    return 1 if failed else 0


def _keep(at: Court, seed: int, verdict: Verdict, into: Path) -> None:
    short = shortest(at, draw(seed), verdict.rule)
    into.mkdir(exist_ok=True)
    path = into / f"{verdict.rule}-{seed}.txt"
    path.write_text(f"# {verdict}\n{short}")
    print(f"shrunk to {path}:\n{short}", end="")


def shortest(at: Court, script: Script, rule: str) -> Script:
    return shrink(script, lambda candidate: any(v.rule == rule for v in at.tried(candidate)))


if __name__ == "__main__":
    sys.exit(main())
