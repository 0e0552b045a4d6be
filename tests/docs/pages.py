"""The documents of this project as data. In: Markdown. Out: fenced blocks, links, headings, words of commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: str  # what stands behind the fence: "sh run", "text", "python file=..."
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def name(page: Path) -> str:
    return str(page.relative_to(PROJECT))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start, info = 0, ""
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if start:
            found.append(Block(page, start, info, "\n".join(lines[start : number - 1]) + "\n"))
            start = 0
        else:
            start, info = number, line[3:].strip()
    assert not start, f"{name(page)}:{start}: a block that does not end"
    return found


def steps(page: Path, kind: str) -> Iterator[tuple[Block, str | None]]:
    """Blocks marked `sh KIND`, and what each must print where a `text` block follows."""
    all_blocks = blocks(page)
    for block, after in zip(all_blocks, [*all_blocks[1:], None], strict=True):
        if block.info == f"sh {kind}":
            yield block, after.text if after is not None and after.info == "text" else None


def pages_with(kind: str) -> list[Path]:
    return [page for page in PAGES if any(block.info == f"sh {kind}" for block in blocks(page))]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that a forge gives to headings."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def run(page: Path, kind: str, home: Path, env: Mapping[str, str]) -> None:
    """The page's blocks of that kind, in order, in one directory; each must end well and print what the page says."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PAL_", "SLURM"))}
    for block, expected in steps(page, kind):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=home, env={**clean, "PATH": path, "LC_ALL": "C.UTF-8", **env},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"
        if expected is not None:
            assert done.stdout == expected, block.place
