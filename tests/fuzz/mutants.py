"""palds that are broken on purpose: each must be caught. In: a name. Out: pald, patched, for as long as it lasts.

Each is one line of what it breaks and the patch by name. The table of docs/bench.md is printed by
`scripts/fuzz --mutants`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.draw import draw
from tests.fuzz.judge import Verdict
from tests.fuzz.script import Script, read
from tests.fuzz.trial import Court

MOST_SEEDS = 400
ROOM = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    breaks: str
    patches: Callable[[], Sequence[tuple[object, str, Any]]]  # whose, name, what stands there instead


MUTANTS: dict[str, Mutant] = {}


def mutant(breaks: str) -> Callable[[Callable[[], Sequence[tuple[object, str, Any]]]], None]:
    def put(patches: Callable[[], Sequence[tuple[object, str, Any]]]) -> None:
        MUTANTS[patches.__name__.replace("_", "-")] = Mutant(breaks, patches)

    return put


def was(whose: object, name: str) -> Any:
    """What stands there."""
    return vars(whose)[name]


@contextmanager
def broken(name: str) -> Iterator[None]:
    """pald with this one mutation."""
    with ExitStack() as stack:
        for whose, attribute, instead in MUTANTS[name].patches():
            before = was(whose, attribute)  # as it stands there: a staticmethod stays one
            setattr(whose, attribute, instead)
            stack.callback(setattr, whose, attribute, before)
        yield


@dataclass(frozen=True)
class Caught:
    seeds: int
    rule: str
    seed: int


def convicted(at: Court, script: Script) -> list[Verdict]:
    """What stands against a broken pald. Not that it raised: then the mutation no longer fits what it was made for."""
    return [verdict for verdict in at.tried(script) if verdict.rule not in ("fault", "broke")]


def until_caught(at: Court, name: str, first: int = 0, most: int = MOST_SEEDS) -> Caught | None:
    with broken(name):
        for number in range(most):
            if verdicts := convicted(at, draw(first + number)):
                return Caught(number + 1, f"{verdicts[0].promise} {verdicts[0].rule}", first + number)
    return None


def by_script(at: Court, name: str) -> tuple[str, str] | None:
    """A script that is kept for it, and the rule that it breaks."""
    kept = [ROOM / "caught" / f"{name}.txt", *sorted((ROOM / "found").glob("*.txt"))]
    for path in kept:
        if path.exists() and (path.stem == name or f"# mutant: {name}\n" in path.read_text()):
            with broken(name):
                if verdicts := convicted(at, read(path.read_text())):
                    return path.name, f"{verdicts[0].promise} {verdicts[0].rule}"
    return None


def table(at: Court, names: Sequence[str], first: int, most: int) -> int:
    """Markdown, a line as soon as it is known; 1: one was caught neither by a drawn world nor by a kept script."""
    print("| mutant | what it breaks | seeds until caught | by |\n|---|---|---|---|")
    missed, seeds, began = 0, 0, time.process_time()
    for name in names:
        found = until_caught(at, name, first, most)
        seeds += most if found is None else found.seeds
        script = None if found else by_script(at, name)
        missed += found is None and script is None
        told = f"{found.seeds} | {found.rule}" if found else f"not in {most} | -"
        told = f"not in {most}; `{script[0]}` | {script[1]}" if script else told
        print(f"| `{name}` | {MUTANTS[name].breaks} | {told} |", flush=True)
    each = (time.process_time() - began) / max(seeds, 1)
    print(f"\n{len(names) - missed} of {len(names)} caught, {seeds} worlds, {each:.2f} CPU-s each")
    return 1 if missed else 0


from tests.fuzz import (  # noqa: E402, F401
    mutants_of_acting,
    mutants_of_looking,
    mutants_of_moving,
    mutants_of_owing,
    mutants_of_sharing,
    mutants_of_tags,
    mutants_of_waiting,
)
