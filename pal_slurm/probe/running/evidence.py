"""Whether the application has saved. In: what it may leave behind. Out: yes, once it was seen twice alike.

A file that is put in its place whole (written beside it, then renamed) is never seen half written; one that is
written in place counts when it no longer grows.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

Look = frozenset[tuple[str, int, int, int]]


class Evidence:
    """Of one save, from the moment when it was asked for."""

    def __init__(self, pattern: str) -> None:
        self._pattern = Path(pattern)  # `*` may stand in the file's name
        self._before = self._last = self._look()

    def there(self) -> bool:
        """Something new is there, and the same as at the last look."""
        look, last = self._look(), self._last
        self._last = look
        return look == last and bool(look - self._before)

    def _look(self) -> Look:
        found = []
        for path in self._pattern.parent.glob(self._pattern.name):
            with contextlib.suppress(OSError):  # renamed or removed meanwhile
                stat = path.stat()
                found.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return frozenset(found)
