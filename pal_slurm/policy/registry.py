"""Policies by name. In: a name out of pal.yaml, `lv` or `random(7)`. Out: the object that fills that seam.

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
_NAME = re.compile(r"([a-z0-9][a-z0-9/_-]*)(?:\(([0-9]+)\))?")


class Registry(Generic[T]):
    """The members of one seam."""

    def __init__(self, seam: str, package: str) -> None:
        self.seam = seam
        self._package = package
        self._makers: dict[str, Callable[[int], T]] = {}
        self._loaded = False

    def register(self, name: str, make: Callable[[int], T]) -> None:
        """`make` gets the number in brackets (a seed), 0 when there is none."""
        if name in self._makers:
            raise ValueError(f"{self.seam} {name!r} is registered twice")
        self._makers[name] = make

    def names(self) -> tuple[str, ...]:
        self._load()
        return tuple(sorted(self._makers))

    def get(self, name: str) -> T:
        """The member of that name; a name that nobody registered is an error that lists those that exist."""
        self._load()
        match = _NAME.fullmatch(name)
        make = self._makers.get(match.group(1)) if match else None
        if match is None or make is None:
            raise ConfigError(f"there is no {self.seam} {name!r}; choose one of {', '.join(self.names())}")
        return make(int(match.group(2) or 0))

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
