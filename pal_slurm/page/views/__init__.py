"""The views, one file each. A module's `ROUTES` says at which addresses what of it answers; adding a view is adding a
file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field

from pal_slurm.page.asked import Visit


@dataclass(frozen=True, slots=True)
class PageView:
    """A template and what it is filled with; or an address to go to instead; or a record, as JSON."""

    template: str = ""
    values: dict[str, object] = field(default_factory=dict)
    instead: str = ""
    record: object = None


Views = dict[str, Callable[[Visit], PageView]]


def every_route() -> Views:
    found: Views = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        found |= importlib.import_module(f"{__name__}.{module.name}").ROUTES
    return found
