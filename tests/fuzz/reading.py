"""`python -m tests.fuzz.reading`: every reader, for so long. In: names, seconds. Out: rows for docs/bench.md; a corpus.

A fault is told with its input, which then belongs into the corpus under a name that tells it, `mended-...`, for good.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.guided import Found, fuzz, least
from tests.fuzz.readers import CORPUS, READERS, kept

FOUND = re.compile(r"[0-9a-f]{12}")  # names of inputs that a search found; a hand gives others


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.reading", description="Inputs that go new ways.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(READERS)} (all)")
    parser.add_argument("--seconds", type=float, default=600.0, help="of CPU for each (600); Ctrl-C ends one sooner")
    parser.add_argument("--seed", type=int, default=0, help="another search (0)")
    parser.add_argument("--keep", action="store_true", help="write the fewest and shortest inputs into the corpus")
    parser.add_argument("--into", type=Path, default=Path("fuzz-found"), help="where inputs of faults go (fuzz-found)")
    asked = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print("| reader | inputs | in | ways | corpus | faults |\n|---|---|---|---|---|---|", flush=True)
    bad = False
    for name in asked.names or READERS:
        found, begun = Found(), time.process_time()
        try:
            fuzz(READERS[name], kept(name), asked.seconds, asked.seed, found)
        except KeyboardInterrupt:
            sys.stderr.write(f"{name} was broken off\n")
        took = time.process_time() - begun
        if asked.keep:
            keep(name, [*found.corpus, *found.dear])
        sizes = [len(data) for data in kept(name)]
        size = f"{len(sizes)} of {sum(sizes) / 1000:.1f} kB"
        print(
            f"| {name} | {found.runs:,} | {took:.0f} s | {len(found.ways):,} | {size} | {len(found.faults)} |",
            flush=True,
        )
        for what, data in found.faults.items():
            bad = True
            path = asked.into / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            print(f"{name}: {what}: {path}", flush=True)
    return 1 if bad else 0


def keep(name: str, found: Sequence[bytes]) -> None:
    """The inputs that a hand named stay as they are; the others are chosen anew."""
    folder = CORPUS / name
    named = [path.read_bytes() for path in folder.iterdir() if not FOUND.fullmatch(path.name)]
    for path in list(folder.iterdir()):
        if FOUND.fullmatch(path.name):
            path.unlink()
    for data in least(READERS[name], found, named):
        Path(folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
