"""`python -m tests.fuzz`, or scripts/fuzz: many worlds, judged. In: seeds, hours. Out: a progress line, a report.

Each failing script is a file that `--replay` and tests/fuzz/found take as it is; night.py keeps them.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.fuzz import mutants
from tests.fuzz.draw import draw, draw_forged
from tests.fuzz.judge import Verdict
from tests.fuzz.night import REPORT, Night
from tests.fuzz.script import Script, read
from tests.fuzz.trial import Court, court


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="pald in simulated time under drawn faults.")
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (200)")
    parser.add_argument("--hours", type=float, help="for so long instead")
    parser.add_argument(
        "--from", dest="first", type=int, help="the first seed (0; --hours: where the last night ended)"
    )
    parser.add_argument("--into", type=Path, default=Path("fuzz-found"), help="report and failing scripts (fuzz-found)")
    parser.add_argument("--digest", action="store_true", help="print a digest of all that happened in these worlds")
    parser.add_argument("--replay", type=Path, help="one script, from a file")
    parser.add_argument("--show", type=int, help="print the script of one seed")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="seeds until each broken pald is caught")
    parser.add_argument("--forged", action="store_true", help="a user of each world forges the tags of his jobs")
    asked = parser.parse_args(argv)
    if unknown := sorted(set(asked.mutants or ()) - set(mutants.MUTANTS)):
        parser.error(f"there is no mutant {unknown[0]!r}; choose of {', '.join(sorted(mutants.MUTANTS))}")
    logging.disable(logging.CRITICAL)  # pald tells each trouble; here they are drawn
    drawn = draw_forged if asked.forged else draw
    if asked.show is not None:
        print(drawn(asked.show), end="")
        return 0
    with court() as at:
        if asked.mutants is not None:
            return mutants.table(at, asked.mutants or list(mutants.MUTANTS), asked.first or 0, asked.seeds)
        if asked.replay is not None:
            return _said(at.tried(read(asked.replay.read_text())))
        digest = hashlib.sha256()
        if asked.digest:
            at.told = lambda history: digest.update(history.encode())
        ended = _run(at, drawn, asked.first, asked.seeds, asked.hours, asked.into)
        if asked.digest:
            print(f"sha256 of their histories: {digest.hexdigest()}")
        return ended


def _said(verdicts: Sequence[Verdict]) -> int:
    for verdict in verdicts:
        print(verdict)
    print("nothing is broken" if not verdicts else f"{len(verdicts)} rules broken")
    return 1 if verdicts else 0


def _run(
    at: Court, drawn: Callable[[int], Script], first: int | None, seeds: int, hours: float | None, into: Path
) -> int:
    night = Night(at, into, first if hours else first or 0, keeps=hours is not None, drawn=drawn)
    began = time.monotonic()
    until, before = night.report.next + seeds, sum(map(len, night.report.failed.values()))
    broken_off: list[int] = []

    def stop(number: int, _: object) -> None:
        broken_off.append(number)
        raise KeyboardInterrupt  # into whatever runs just now; a finalizer loses it, and then the world is the last

    def go_on() -> bool:
        more = night.report.next < until if hours is None else time.monotonic() - began < 3600 * hours
        return more and not broken_off

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    with suppress(KeyboardInterrupt):
        night.run(go_on)
    report = night.end()
    print(f"\n{report}")
    if hours is not None:
        print(f"{into / REPORT}: another --hours goes on from seed {report.next}")
    failed = sum(map(len, report.failed.values())) > before
    return 130 if broken_off else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
