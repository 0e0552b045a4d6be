"""Slurm's tokens: whose one is, and every way in which it is nobody's."""

from __future__ import annotations

import base64
import hmac
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.config.page import PageSection
from pal_slurm.errors import ConfigError
from pal_slurm.page.serving import _key
from pal_slurm.page.token import user_of
from pal_slurm.page.viewer import Unclear, Viewer, viewer_of
from tests.web.live import LivePage, Site

KEY = bytes(range(32))
NOW = 1_000_000.0
CLAIMS: dict[str, Any] = {"exp": NOW + 60, "iat": NOW, "sun": "alice"}


def part(value: object) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(claims: object = CLAIMS, alg: str = "HS256", key: bytes = KEY, how: Any = sha256) -> bytes:
    """As Slurm makes them."""
    signed = part({"alg": alg, "typ": "JWT"}) + b"." + part(claims)
    return signed + b"." + part(hmac.new(key, signed, how).digest())


def test_a_token_says_whose_it_is_until_its_time_is_over() -> None:
    assert user_of(token(), KEY, NOW) == "alice"
    assert user_of(token(), KEY, NOW + 59.9) == "alice"
    assert user_of(token(), KEY, NOW + 60) == ""


UNSIGNED = part({"alg": "none"}) + b"." + part(CLAIMS) + b"."
HEAD, BODY, SIGN = token().split(b".")


@pytest.mark.parametrize(
    "forged",
    [
        b"", b".", b"..", b"a.b.c", b"\xff.\xff.\xff", UNSIGNED, UNSIGNED + part(b""), HEAD + b"." + BODY,
        token() + b".x", token(key=KEY[::-1]), token(alg="none"), token(alg="RS256"), token(alg="HS512", how=sha512),
        token(how=sha512),
        HEAD + b"." + part({**CLAIMS, "sun": "root"}) + b"." + SIGN, HEAD + b"." + BODY + b"." + SIGN[:-2],
        HEAD + b"." + BODY + b"==." + SIGN, token({**CLAIMS, "sun": 7}), token({"sun": "alice"}),
        token({"exp": NOW + 60}),
        token({**CLAIMS, "exp": "never"}), token({**CLAIMS, "exp": None}), token([]), token(b"\xff"),
        token({**CLAIMS, "x": "y" * 9000}), b"[" * 4000 + b".a.b",
    ],
)  # fmt: skip
def test_what_slurm_did_not_sign_is_nobody_s(forged: bytes) -> None:
    assert user_of(forged, KEY, NOW) == ""


def test_a_key_that_can_be_guessed_is_none() -> None:
    assert user_of(token(key=b"short"), b"short", NOW) == ""
    assert user_of(token(key=b""), b"", NOW) == ""


def test_a_key_file_that_is_none_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        _key(str(tmp_path / "none"))
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="is no key: it has 0 bytes"):
        _key(str(tmp_path / "empty"))
    assert _key("") == b""


def bearer(claims: dict[str, Any], key: bytes = KEY) -> tuple[bytes, bytes]:
    return b"Authorization", b"Bearer " + token({**claims, "exp": time.time() + 60}, key=key)


def test_a_token_names_its_user_where_the_page_has_the_key_and_nowhere_else() -> None:
    page = PageSection(admins=("root",))
    assert viewer_of([bearer(CLAIMS)], "192.0.2.1", page, KEY) == Viewer("alice")
    assert viewer_of([bearer({"sun": "root"})], "192.0.2.1", page, KEY) == Viewer("root", everything=True)
    assert viewer_of([bearer(CLAIMS)], "192.0.2.1", page) == Viewer()
    assert viewer_of([(b"Authorization", b"Basic YTpi")], "192.0.2.1", page, KEY) == Viewer()
    for headers in (
        [bearer(CLAIMS, KEY[::-1])], [bearer(CLAIMS), bearer(CLAIMS)], [bearer({"sun": "a b"})], [bearer({"sun": ""})],
        [bearer(CLAIMS), (b"Authorization", b"Basic YTpi")], [(b"Authorization", b"Bearer ")],
    ):  # fmt: skip
        with pytest.raises(Unclear):
            viewer_of(headers, "192.0.2.1", page, KEY)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    home = tmp_path_factory.mktemp("token")
    (home / "key").write_bytes(KEY)
    with LivePage(Site(home / "pal", settings={"jwt_key": str(home / "key")}).make()) as page:
        yield page


def palctl(page: LivePage, said: bytes, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PAL_PAGE": page.url, "SLURM_JWT": said.decode(), "PAL_CONFIG": "/nowhere", "PATH": os.environ["PATH"]}
    program = Path(sys.executable).with_name("palctl")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60, env=env)


def test_palctl_asks_the_page_on_hosts_without_pald(page: LivePage) -> None:
    alice = token({**CLAIMS, "exp": time.time() + 600})
    why = palctl(page, alice, "why", "100")
    assert "Job 100 asks for 2 GPUs and runs resnet50, class A." in why.stdout and why.returncode == 0
    his = palctl(page, alice, "why", "101")
    assert (his.returncode, his.stdout) == (65, "") and "of yours is known" in his.stderr
    rows = json.loads(palctl(page, alice, "jobs", "--json").stdout)
    assert rows and {row["job"] % 2 for row in rows} == {0}, "every second job is bob's"
    assert "resnet50" in palctl(page, alice, "apps").stdout


@pytest.mark.parametrize("said", [b"", token(), token(key=KEY[::-1]), UNSIGNED, b"x\r\nX-Remote-User: root"])
def test_who_has_no_good_token_is_told_so_in_a_sentence(page: LivePage, said: bytes) -> None:
    done = palctl(page, said, "why", "100")
    assert done.returncode in (65, 75) and done.stdout == ""
    assert "Traceback" not in done.stderr and "resnet50" not in done.stderr


def test_without_a_token_the_page_answers_no_question(page: LivePage) -> None:
    for path in ("/ask/why/100", "/ask/jobs", "/ask/apps"):
        assert page.get(path).status == 403, path
    assert page.get("/ask/sudo").status == 403
