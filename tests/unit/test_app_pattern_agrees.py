"""The name of an application is one pattern in C, Lua and Python. In: spank/tests/vectors.txt. Out: the Python verdict.

C reads the same file in test_spank_c.py, Lua in test_job_submit_lua.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pal_slurm.model.app import APP_NAME, read_hint

VECTORS = Path(__file__).parents[2] / "spank" / "tests" / "vectors.txt"


def unescape(text: str) -> str:
    """`\\xNN` is a byte, `\\\\` a backslash; bytes that are no UTF-8 become what the backends make of them."""
    raw = re.sub(rb"\\x([0-9a-f]{2})|\\\\", lambda m: bytes([int(m[1], 16)]) if m[1] else b"\\", text.encode())
    return raw.decode(errors="surrogateescape")


def vectors(kind: str) -> list[tuple[str, str]]:
    rows = (line.split("\t") for line in VECTORS.read_text().splitlines() if line.startswith(kind + "\t"))
    return [(row[1], unescape(row[2])) for row in rows]


@pytest.mark.parametrize(("wanted", "name"), vectors("name"))
def test_python_judges_a_name_as_the_vectors_say(wanted: str, name: str) -> None:
    assert (APP_NAME.fullmatch(name) is not None) == (wanted == "yes")


@pytest.mark.parametrize(("app", "comment"), vectors("word"))
def test_a_reader_finds_the_application_that_the_vectors_say(app: str, comment: str) -> None:
    assert read_hint(comment).app == (None if app == "-" else app)


def test_what_lua_writes_into_a_plain_comment_is_what_python_reads() -> None:
    """Lua's result on clean comments must be read back as the option's application."""
    rows = [line.split("\t") for line in VECTORS.read_text().splitlines() if line.startswith("tag\t")]
    clean = [(app, after) for _, app, _, after in rows if unescape(after).isprintable()]
    assert len(clean) > 5
    for app, after in clean:
        assert read_hint(unescape(after)).app == app
