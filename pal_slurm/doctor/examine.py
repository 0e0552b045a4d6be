"""All checks of a site. In: a Site. Out: advice by check, in the order in which an admin would mend.

Each module of `pal_slurm.doctor.checks` is one check, found by its name: `STEP` says when its turn is, `TITLE` what
it is called, `look` does it. Adding a check is adding a file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from pal_slurm.doctor import checks
from pal_slurm.doctor.advice import Advice, Health, note
from pal_slurm.doctor.site import Site


@dataclass(frozen=True, slots=True)
class Checked:
    check: str
    advice: Advice


def all_checks() -> list[ModuleType]:
    found = [importlib.import_module(f"{checks.__name__}.{m.name}") for m in pkgutil.iter_modules(checks.__path__)]
    return sorted(found, key=lambda module: (module.STEP, module.__name__))


def examine(site: Site) -> list[Checked]:
    """What is wrong with one check hides no other."""
    return [Checked(module.TITLE, advice) for module in all_checks() for advice in _looked(module, site)]


def _looked(module: ModuleType, site: Site) -> Iterator[Advice]:
    try:
        for advice in module.look(site):
            yield _in_shadow(advice) if advice.to_place and site.pal.actuator == "shadow" else advice
    except (OSError, ValueError) as error:
        yield note(f"can't be looked at: {error}")


def _in_shadow(advice: Advice) -> Advice:
    return replace(advice, health=Health.NOTE, said=f"{advice.said} (not needed in shadow mode)")


def ready(found: Sequence[Checked]) -> bool:
    return all(one.advice.health is not Health.MEND for one in found)


def mended(found: Sequence[Checked]) -> list[str]:
    """Does what may be done to pal-slurm's own files; one sentence each."""
    done = []
    for one in found:
        if one.advice.fix is not None:
            try:
                done.append(one.advice.fix())
            except OSError as error:
                done.append(f"{one.check}: can't be mended here: {error}")
    return done
