"""Policies by name. In: a name out of pal.yaml, `lv`, `random(7)`, `fixed(3600,7200)`. Out: what fills that seam.

Each seam is a package; a module in it registers what it offers when it is imported, and every module is imported at the
first look-up. So adding a policy is adding one file.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from typing import Generic, TypeVar

from pal_slurm.errors import ConfigError

T = TypeVar("T")
_NAME = re.compile(r"([a-z0-9][a-z0-9/_-]*)(?:\(([0-9]{1,15}(?:,[0-9]{1,15})*)\))?")


class Registry(Generic[T]):
    """The members of one seam."""

    def __init__(self, seam: str, package: str) -> None:
        self.seam = seam
        self._package = package
        self._makers: dict[str, tuple[Callable[..., T], tuple[int, ...]]] = {}
        self._loaded = False

    def register(self, name: str, make: Callable[..., T], defaults: tuple[int, ...] = (0,)) -> None:
        """`make` gets the numbers in brackets (a seed, seconds), and of `defaults` what is not given."""
        if name in self._makers:
            raise ValueError(f"{self.seam} {name!r} is registered twice")
        self._makers[name] = make, defaults

    def names(self) -> tuple[str, ...]:
        self._load()
        return tuple(sorted(self._makers))

    def get(self, name: str) -> T:
        """The member of that name; a name that nobody registered is an error that lists those that exist."""
        self._load()
        match = _NAME.fullmatch(name)
        made = self._makers.get(match.group(1)) if match else None
        if match is None or made is None:
            raise ConfigError(f"there is no {self.seam} {name!r}; choose one of {', '.join(self.names())}")
        make, defaults = made
        given = tuple(map(int, match.group(2).split(","))) if match.group(2) else ()
        if len(given) > len(defaults):
            raise ConfigError(f"{self.seam} {name!r}: {match.group(1)} takes {len(defaults)} numbers at most")
        return make(*given, *defaults[len(given) :])

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
