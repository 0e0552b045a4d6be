"""Build hook: man pages and completions in the wheel. In: the package's own commands. Out: `shared_data` of the wheel.

They are made at build time of what `--help` says, so nothing that could be out of date is kept in the repository.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # scripts/setup: the source is at hand
            return
        sys.path.insert(0, self.root)
        from pal_slurm.cli.manual import manual

        self._written = tempfile.TemporaryDirectory(prefix="pal-slurm-manual-")
        for place, text in manual().items():
            path = Path(self._written.name) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = f"share/{place}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._written.cleanup()
