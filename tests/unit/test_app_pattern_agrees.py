"""Names of applications and wishes to be moved are one pattern in C, Lua and Python.

In: spank/tests/vectors.txt. Out: the Python verdict.

C reads the same file in test_spank_c.py, Lua in test_job_submit_lua.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pal_slurm.model.app import APP_NAME, read_hint
from pal_slurm.model.consent import MOVABLE, Consent, Given, consent_of, read_move

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


@pytest.mark.parametrize(("wanted", "value"), vectors("move"))
def test_python_judges_a_wish_to_be_moved_as_the_vectors_say(wanted: str, value: str) -> None:
    assert (read_move(f"pal:move={value}").given is Given.ASKED) == (wanted == "yes")


CONSENTS = [line.split("\t")[1:] for line in VECTORS.read_text().splitlines() if line.startswith("consent\t")]


@pytest.mark.parametrize(("given", "cost", "signal", "comment"), CONSENTS)
def test_a_reader_takes_a_comment_for_the_consent_that_the_vectors_say(
    given: str, cost: str, signal: str, comment: str
) -> None:
    consent = read_hint(unescape(comment)).consent
    told = (
        f"{'B:' * consent.to_script}{consent.signal}@{consent.ahead_s}{'!' * consent.unanswered}"
        if consent.signal
        else "-"
    )
    assert (consent.given, str(consent.cost_s or "-"), told) == (given, cost, signal)


@pytest.mark.parametrize("said", [read_hint(c).consent for c in ("", "pal:move", "pal:stay", "pal:move=0", "pal:off")])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("site", [False, True])
@pytest.mark.parametrize("requeue", [False, True])
def test_stay_and_no_requeue_always_win(said: Consent, first: bool, site: bool, requeue: bool) -> None:
    stays = consent_of(said, restarts=False, asked_first=first, site=site, requeue=requeue)
    assert stays.given not in MOVABLE
    goes = consent_of(said, restarts=True, asked_first=first, site=site, requeue=requeue)
    assert (goes.given in MOVABLE) == (said.asked or (said.given is Given.NOT and not first and (site or requeue)))


def test_what_lua_writes_into_a_plain_comment_is_what_python_reads() -> None:
    """Lua's result on clean comments must be read back as the option's application."""
    rows = [line.split("\t") for line in VECTORS.read_text().splitlines() if line.startswith("tag\t")]
    clean = [(app, after) for _, app, _, after in rows if unescape(after).isprintable()]
    assert len(clean) > 5
    for app, after in clean:
        assert read_hint(unescape(after)).app == app
