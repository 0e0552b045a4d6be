"""Who looks at a page: one header, from one address or a socket; anything else is answered in no way."""

from __future__ import annotations

import pytest

from pal_slurm.config.page import PageSection
from pal_slurm.page.viewer import Unclear, Viewer, is_ours, viewer_of

HEADER = (b"X-Remote-User", b"alice")
SOCKET = PageSection(listen="unix:/s", user_header="X-Remote-User", admins=("root",))
PROXY = PageSection(user_header="X-Remote-User", proxy="192.0.2.7")


def test_a_name_counts_through_the_socket_and_from_the_proxy_alone() -> None:
    assert viewer_of([HEADER], None, SOCKET) == Viewer("alice")
    assert viewer_of([HEADER], "192.0.2.7", PROXY) == Viewer("alice")
    for peer in ("127.0.0.1", "192.0.2.70", "::1", "", None):
        with pytest.raises(Unclear):
            viewer_of([HEADER], peer, PROXY)
        assert viewer_of([], peer, PROXY) == Viewer()


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        (b"127.0.0.1:9753", True), (b"localhost", True), (b"LOCALHOST.:9753", True), (b"[::1]:9753", True),
        (b"10.0.0.5", True), (b"head.example:9753", True), (b"gpus.example", True), (b"Gpus.Example:443", True),
        (b"evil.example", False), (b"gpus.example.evil.example", False), (b"xgpus.example", False), (b"", False),
        (b"127.0.0.1.evil.example:9753", False), (b"evil.example@localhost", False), (b"localhost:x", False),
        (b"localhost, evil.example", False), (b"[localhost]", False), (b"\xff", False), (b"a" * 9_000, False),
    ],
)  # fmt: skip
def test_a_name_that_is_not_the_pages_is_refused(host: bytes, ours: bool) -> None:
    """A web page elsewhere whose name leads here would be read as if it were this one."""
    assert is_ours(host, PageSection(listen="head.example:9753", hosts=("gpus.example",))) == ours
    assert is_ours(host, PageSection(listen="unix:/s", hosts=("gpus.example", "head.example."))) == ours


def test_without_a_header_set_up_nobody_is_anybody() -> None:
    assert viewer_of([HEADER], "127.0.0.1", PageSection()) == Viewer()
    assert viewer_of([HEADER], None, PageSection(listen="unix:/s", admins=("alice",))) == Viewer()


def test_settings_of_a_socket_let_nobody_in_while_the_page_listens_elsewhere() -> None:
    """`pal-page --listen 127.0.0.1:80`: no address is the proxy's, and one that is gone already has none."""
    elsewhere = PageSection(listen="127.0.0.1:80", user_header="X-Remote-User")
    for peer in ("127.0.0.1", "", None):
        with pytest.raises(Unclear):
            viewer_of([HEADER], peer, elsewhere)


@pytest.mark.parametrize(
    "headers",
    [
        [HEADER, HEADER], [HEADER, (b"x-remote-user", b"root")], [(b"X_Remote_User", b"root")],
        [HEADER, (b"x_remote-user", b"root")], [(b"X-Remote-User", b"")], [(b"X-Remote-User", b"a b")],
        [(b"X-Remote-User", b"a,b")], [(b"X-Remote-User", b"\xc3\xbc")], [(b"X-Remote-User", b"a\tb")],
        [(b"X-Remote-User", b"-rf")], [(b"X-Remote-User", b"a" * 65)],
    ],
)  # fmt: skip
def test_what_is_not_one_name_said_once_is_refused(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unclear):
        viewer_of(headers, None, SOCKET)


def test_an_admin_sees_everything_a_user_his_own_and_a_stranger_nothing() -> None:
    root, alice, stranger = viewer_of([(b"X-Remote-User", b"root")], None, SOCKET), Viewer("alice"), Viewer()
    assert [root.sees(user) for user in ("alice", "bob", "")] == [True, True, True]
    assert [alice.sees(user) for user in ("alice", "bob", "")] == [True, False, False]
    assert [stranger.sees(user) for user in ("alice", "bob", "")] == [False, False, False]
    assert viewer_of([], "127.0.0.1", PageSection(privacy="open")).sees("bob")
