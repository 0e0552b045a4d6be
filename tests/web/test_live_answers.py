"""pal-page over HTTP: what each address answers, to whom, and what it does with bad input."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from pal_slurm.report.pace import BURST, TOO_OFTEN
from pal_slurm.store import Switches, open_store
from pal_slurm.store.tables import HEAD
from tests.web.fleets import HARM, fill
from tests.web.live import LivePage, Site

VIEWS = (
    "/", "/?colour=A", "/queue", "/running", "/apps", "/app/resnet50", "/gained", "/ledger", "/health", "/nodes/0",
    "/job/100", "/job/1003", "/gpu/n1:g0", "/gpu/GPU-n1-0-0000",
)  # fmt: skip


def wait_for(condition: Callable[[], bool], what: str, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    """Nobody is logged in."""
    with LivePage(Site(tmp_path_factory.mktemp("site") / "pal").make(fill)) as page:
        yield page


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    """Behind a proxy that says who it is, through a socket."""
    home = tmp_path_factory.mktemp("behind") / "pal"
    listen = f"unix:{home}/page.sock"
    settings: dict[str, object] = {"listen": listen, "user_header": "X-Remote-User", "admins": ["root"]}
    with LivePage(Site(home, settings=settings).make(fill), listen) as page:
        yield page


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_answers_with_the_same_strict_headers(page: LivePage, path: str) -> None:
    answer = page.get(path)
    assert answer.status == 200, answer.text
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    assert policy.startswith("default-src 'none'; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in answer.headers
    assert page.get(path, method="HEAD").body == b""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404), ("/job/", 404), ("/job/x", 400), ("/job/1e3", 400), ("/job/-1", 400), ("/job/9", 404),
        ("/job/" + "9" * 400, 400), ("/job/99999999999", 400), ("/job/1_", 400), ("/job/1_2_3", 400),
        ("/job/%E2%91%A0", 400), ("/job/100%00", 400), ("/job/..%2f..%2fetc%2fpasswd", 404), ("/gpu/", 400),
        ("/gpu/" + "x" * 900, 400), ("/gpu/n1:g999", 200), ("/gpu/n1:g9999999", 404), ("/gpu/nope", 404),
        ("/gpu/n1:g0'%20OR%201=1--", 404), ("/app/nope", 404), ("/app/" + "y" * 100, 400), ("/user/alice", 403),
        ("/nodes/9", 404), ("/nodes/x", 400), ("/queue?page=0", 400), ("/queue?page=2", 404), ("/queue?page=1e9", 400),
        ("/queue?page=" + "1" * 50, 400), ("/?colour=<script>", 400), ("/?page=77", 404), ("/find", 400),
        ("/find?q=" + "z" * 300, 400), ("/ledger?before=-3", 400), ("/ledger?before=99999999999", 400),
        ("/files/../app.py", 404), ("/files/x.css", 404), ("//evil.example/", 404), ("/" + "a" * 3000, 400),
    ],
)  # fmt: skip
def test_junk_is_refused_with_a_page_that_says_so(page: LivePage, path: str, status: int) -> None:
    answer = page.get(path)
    assert answer.status == status, answer.text
    assert "Traceback" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script>" not in answer.text


def test_find_leads_where_the_word_belongs(page: LivePage) -> None:
    for word, place in {
        "100": "job/100", "100_3": "job/100_3", "n1:0": "gpu/n1%3A0", "carol": "user/carol",
        "GPU-n1-0-0000": "gpu/GPU-n1-0-0000", "//evil.example": "user/%2F%2Fevil.example",
    }.items():  # fmt: skip
        answer = page.get(f"/find?q={quote(word, safe='')}")
        assert (answer.status, answer.headers["location"]) == (303, place)


def test_who_is_not_logged_in_sees_no_names(page: LivePage) -> None:
    for path in VIEWS:
        text = page.get(path).text
        assert "alice" not in text and "bob" not in text, path
        assert path.startswith("/app") or "bert-large" not in text, path
    text = page.get("/job/100").text
    assert "is shown to its user" in text and "Placements weighed" not in text
    assert "n1:g0,g1" in text  # that it is there


FAR = (2**31, 253_402_300_799, 253_402_300_800, 2**62, -(2**62))  # seconds; the third begins the year 10000


def test_one_job_of_absurd_numbers_costs_its_own_row_and_no_page(tmp_path: Path) -> None:
    """Years beyond 9999, and names of nodes that nothing can be made of."""
    site = Site(tmp_path / "pal", settings={"privacy": "open"}).make(fill)
    with contextlib.closing(open_store(site.url)) as store:
        seen = site.show(store, time.time())
    runs = [replace(seen.running[0], job=7001 + n, start=at, end=at) for n, at in enumerate(FAR)]
    waits = [
        replace(seen.waiting[0], job=8001 + n, submit=at, lease=at, until=float(at), gpus=2**62)
        for n, at in enumerate(FAR)
    ]
    broken = replace(seen.running[0], job=7999, nodes=("n[1-",), gpus=((0,),))
    site.write(replace(seen, running=(broken, *runs, *seen.running), waiting=(*waits, *seen.waiting)))
    every = ("/queue", "/running", "/", "/apps", "/user/alice", "/job/100", "/job/1003", "/app/resnet50")
    with LivePage(site) as page:
        odd = [7999, *(job.job for job in runs), *(job.job for job in waits)]
        for path in (*every, *(f"/job/{number}" for number in odd)):
            answer = page.get(path)
            assert answer.status == 200, (path, answer.text)
        queue, running = page.get("/queue").text, page.get("/running").text
        assert all(f"job/{job.job}" in queue for job in (*waits, *seen.waiting))
        assert all(f"job/{job.job}" in running for job in (broken, *runs, *seen.running))
        assert "after the year 9999" in queue and "after the year 9999" in running
        assert running.count("can&#39;t be shown") == 1


PRIVATE_SETTINGS: dict[str, object] = {"user_header": "X-Remote-User", "admins": ["root"], "privacy": "open"}


def test_what_slurm_keeps_private_the_page_keeps_private_too(tmp_path: Path) -> None:
    """PrivateData=jobs,nodes: a user sees his own jobs and what they hold, and not that there are others."""
    listen = f"unix:{tmp_path}/pal/page.sock"
    site = Site(tmp_path / "pal", settings={**PRIVATE_SETTINGS, "listen": listen}).make(fill)
    with contextlib.closing(open_store(site.url)) as store:
        seen = site.show(store, time.time())
    site.write(replace(seen, private=("jobs", "nodes", "usage")))
    root, alice = ("X-Remote-User", "root"), ("X-Remote-User", "alice")
    with LivePage(site, listen) as page:
        every = {path: page.get(path, root) for path in VIEWS}
        assert {answer.status for answer in every.values()} == {200}
        assert "job/101" in every["/running"].text and "bob" in every["/queue"].text
        for who in ((), (alice,)):
            for path in VIEWS:
                text = page.get(path, *who).text
                assert not re.search(r"\bbob\b|\bjob/(101|1001)\b|\bn16\b", text), path  # nor nodes without hers
            none, others = page.get("/job/999999", *who), page.get("/job/101", *who)
            assert (none.status, others.status) == (404, 404)
            assert others.text.replace("101", "N") == none.text.replace("999999", "N")
            assert page.get("/ledger", *who).status == page.get("/gpu/n1:g0", *who).status == 403
        mine = page.get("/job/100", alice).text
        assert "Placements weighed" in mine and "job/100" in page.get("/running", alice).text
        assert "before it" not in page.get("/job/1002", alice).text
        assert "before it" in page.get("/job/1002", root).text
        assert page.get("/job/100").status == 404
        with page.connect() as channel:
            channel.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: alice\r\n\r\n")
            heard = b""
            while b"event: now" not in heard or b"counts" not in heard:
                heard += channel.recv(65536)
            assert b'"counts":{}' in heard


def test_a_user_sees_his_own_jobs_in_full_and_others_as_before(behind: LivePage) -> None:
    alice = ("X-Remote-User", "alice")
    mine, others = behind.get("/job/100", alice).text, behind.get("/job/101", alice).text
    assert "Placements weighed" in mine and "Slurm&#39;s own choice would have cost" in mine
    assert "Placements weighed" not in others and "bob" not in others
    queue = behind.get("/queue", alice).text
    assert queue.count('user/alice">alice</a>') == 7 and "bob" not in queue  # six rows, and the way to her own page
    waits, theirs = behind.get("/job/1000", alice).text, behind.get("/job/1001", alice).text
    assert re.search(
        r"Start: expected start about [-0-9: ]+ \([-0-9: ]+ to [-0-9: ]+\), without pald at .*forecast of", waits
    )
    assert "expected start" not in theirs and "forecast of" not in theirs and "Start: probably" in theirs
    assert queue.count("expected start about") == 6 and "probably" in queue
    assert behind.get("/user/alice", alice).status == 200
    assert behind.get("/user/bob", alice).status == 403
    assert "bob" in behind.get("/queue", ("X-Remote-User", "root")).text
    assert behind.get("/user/bob", ("X-Remote-User", "root")).status == 200
    assert "alice" not in behind.get("/queue").text  # and the next one, without a name, gets none of it


@pytest.mark.parametrize(
    "lines",
    [
        "X-Remote-User: alice\r\nX-Remote-User: root", "X-Remote-User: alice, root", "X_Remote_User: root",
        "X-Remote-User: ", "X-Remote-User: <b>root</b>", "X-Remote-User: ro\u00f6t", "X-Remote_User: root",
        "x-remote-user: root\r\nX-Remote-User: root", "X-Remote-User: " + "a" * 65, "Host: other",
        "Transfer-Encoding: chunked", "Content-Length: 5", "Content-Length: 0\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0", "Content-Length: 0, 5",
    ],
)  # fmt: skip
def test_what_can_be_meant_in_two_ways_is_answered_in_none(behind: LivePage, lines: str) -> None:
    """A second request behind the head is never answered: whoever got it in would speak as somebody else."""
    smuggled = "GET /user/bob HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: root\r\n\r\n"
    answer = behind.raw(f"GET /queue HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n{smuggled}".encode())
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]
    assert answer.count(b"HTTP/1.1") == 1
    assert b"bob" not in answer


def test_bytes_that_are_no_http_end_the_connection(page: LivePage) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\r\n" * 9000, b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000,
    ):  # fmt: skip
        answer = page.raw(data)
        assert not answer or answer.startswith(b"HTTP/1.1 400"), answer[:100]
    assert page.get("/health").status == 200


def test_a_page_elsewhere_can_not_be_this_one_by_a_name_of_its_own(page: LivePage, behind: LivePage) -> None:
    for hosts in ("Host: evil.example\r\n", "Host: evil.example:9753\r\n", "Host: \r\n"):
        for path in ("/queue", "/events", "/ask/jobs"):
            for one in (page, behind):
                answer = one.raw(f"GET {path} HTTP/1.1\r\n{hosts}X-Remote-User: alice\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 400 ") and b"alice" not in answer, answer[:200]
    answer = page.raw(b"GET /queue HTTP/1.0\r\n\r\n")
    assert answer.split()[1] == b"400", answer[:200]


def test_only_reading_is_done(page: LivePage) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        assert page.get("/queue", method=method).status == 405, method


def test_a_header_from_elsewhere_than_the_proxy_is_refused(tmp_path: Path) -> None:
    settings: dict[str, object] = {"user_header": "X-Remote-User", "proxy": "192.0.2.7"}
    with LivePage(Site(tmp_path / "pal", settings=settings).make()) as page:
        assert page.get("/queue").status == 200
        refused = page.get("/queue", ("X-Remote-User", "alice"))
        assert refused.status == 400 and "alice" not in refused.text


def test_names_that_mean_harm_are_texts(tmp_path: Path) -> None:
    texts = [text[:60] for text in HARM]
    with LivePage(Site(tmp_path / "pal", texts=texts, settings={"privacy": "open"}).make(fill)) as page:
        for path in ("/", "/queue", "/running", "/job/100", "/job/1001", "/apps", "/ledger",
                     *(f"/user/{quote(text, safe='')}" for text in texts)):  # fmt: skip
            answer = page.get(path)
            assert answer.status == 200, (path, answer.text[-400:])
            for harm in ("<script>document", "<img", "<svg onload", "<style>*", "</title></style>", "\x1b", "\u202e"):
                assert harm not in answer.text, (path, harm)
            assert "javascript:" not in "".join(part for part in answer.text.split('href="')[1:])[:20]


def test_without_pald_s_file_the_database_is_shown_and_with_it_the_rest(tmp_path: Path) -> None:
    site = Site(tmp_path / "pal").make(fill)
    kept = site.view.read_bytes()
    site.view.unlink()
    with LivePage(site) as page:
        assert "pald has not been seen" in page.get("/").text
        assert page.get("/gpu/n1:g0").status == 200
        for wrong in (b"", b"{", b"[1]", b'{"version": 99, "cluster": "c"}', kept[: len(kept) // 2], b"\xff" * 99):
            site.view.write_bytes(wrong)
            wait_for(lambda: "what pald sees" in page.get("/health").text, "it says what it can't read")
            assert page.get("/").status == 200
        site.view.write_bytes(kept)
        wait_for(lambda: "12 jobs wait" in page.get("/queue").text, "the queue is there")
        wait_for(lambda: "reads all that it needs" in page.get("/health").text, "nothing is wrong any more")


def test_a_pald_that_fell_silent_is_told_of(tmp_path: Path) -> None:
    site = Site(tmp_path / "pal").make()
    before = json.loads(site.view.read_text())
    site.view.write_text(json.dumps({**before, "ended": time.time() - 300}))
    with LivePage(site) as page:
        text = page.get("/").text
        assert "pald is silent" in text and "Jobs start by themselves" in text


def test_a_pause_is_told_on_every_page_since_when_by_whom_and_why(page: LivePage) -> None:
    with contextlib.closing(open_store(page.site.url)) as store:
        Switches(store).pause("new <driver> (by alice)", 1_795_000_000)
        try:
            for path in ("/", "/queue", "/health"):
                wait_for(partial(_says, page, path, "new &lt;driver&gt; (by alice)"), f"{path} tells of it")
            assert re.search(r"since 2026-11-1[0-9] [0-9:]{8}: new", page.get("/").text)
        finally:
            Switches(store).resume()
    wait_for(lambda: "by alice" not in page.get("/").text, "it is over")


def _says(page: LivePage, path: str, text: str) -> bool:
    return text in page.get(path).text


def _sql(site: Site, statement: str) -> None:
    with sqlite3.connect(site.home / "pal.sqlite") as db:
        db.execute(statement)
    db.close()


@pytest.mark.parametrize("version", ["0001", "9999"])
def test_a_database_of_another_schema_is_not_read_and_the_present_is_shown(tmp_path: Path, version: str) -> None:
    site = Site(tmp_path / "pal").make()
    _sql(site, f"UPDATE alembic_version SET version_num = '{version}'")
    with LivePage(site) as page:
        assert "12 jobs wait" in page.get("/queue").text
        assert page.get("/job/100").status == 200
        assert page.get("/ledger").status == 503
        assert page.get("/job/7").status == 503
        assert "Traceback" not in page.said()
        _sql(site, f"UPDATE alembic_version SET version_num = '{HEAD}'")
        wait_for(lambda: page.get("/ledger").status == 200, "the ledger can be read")


def test_a_database_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    site = Site(tmp_path / "pal").make(fill)
    with LivePage(site) as page:
        assert page.get("/ledger").status == 200
        moved = site.home / "elsewhere"
        for name in ("pal.sqlite",):
            (site.home / name).rename(moved)
        wait_for(lambda: page.get("/ledger").status == 503, "it is gone")
        assert "12 jobs wait" in page.get("/queue").text
        moved.rename(site.home / "pal.sqlite")
        wait_for(lambda: page.get("/ledger").status == 200, "it is back")


def test_a_locked_database_is_read_all_the_same_and_never_written(tmp_path: Path) -> None:
    site = Site(tmp_path / "pal").make(fill)
    with LivePage(site) as page:
        lock = sqlite3.connect(site.home / "pal.sqlite", isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        assert page.get("/ledger").status == 200
        assert page.get("/gpu/n2:g0").status == 200
        lock.execute("ROLLBACK")
        lock.close()
        before = (site.home / "pal.sqlite").read_bytes()
        for path in VIEWS:
            page.get(path)
        assert (site.home / "pal.sqlite").read_bytes() == before


def test_events_come_as_they_happen_and_tell_strangers_no_more(page: LivePage) -> None:
    with page.connect() as channel:
        channel.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = b""

        def has(words: bytes) -> bool:
            nonlocal heard
            channel.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                heard += channel.recv(65536)
            return words in heard

        wait_for(lambda: has(b"event: now"), "the present comes first")
        page.site.edit(117)
        wait_for(lambda: has(b"event: edits"), "an edit is told of")
        wait_for(lambda: has(b"pinned to n16:g0,g1: done"), "and what it was")
        assert b"alice" not in heard and b"bob" not in heard


def test_a_move_is_told_step_by_step(page: LivePage) -> None:
    page.site.move(105)
    wait_for(
        lambda: "its nice was given back (0): done" in page.get("/").text, "its last step is told on the first page"
    )
    for path in ("/", "/ledger"):
        text = page.get(path).text
        for words in ("asked to save by SIGUSR1 to its steps: done", "requeued as it was submitted", "n14:g1,g2: done"):
            assert words in text, (path, words)


def test_a_thousand_silent_clients_keep_nobody_out(tmp_path: Path) -> None:
    """More than may be connected: those that say nothing make way, and the page answers all along."""
    with LivePage(Site(tmp_path / "pal", settings={"most_clients": 64}).make()) as page:
        assert page.process is not None
        files = Path(f"/proc/{page.process.pid}/fd")
        before = len(list(files.iterdir()))
        silent: list[socket.socket] = []
        try:
            for number in range(1000):
                channel = page.connect()
                channel.sendall((b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")[number % 3])
                silent.append(channel)
                if number % 250 == 249:
                    assert page.get("/health").status == 200
                    assert len(list(files.iterdir())) <= before + 64 + 8
        finally:
            for channel in silent:
                channel.close()
        assert page.get("/queue").status == 200


def test_one_user_s_many_questions_do_not_hold_up_another(behind: LivePage) -> None:
    """bob asks after a hundred of alice's: he does not wait for them."""
    channels = [behind.connect() for _ in range(100)]
    try:
        for number, channel in enumerate(channels):
            head = f"GET /job/100?n={number} HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: alice\r\n\r\n"
            channel.sendall(head.encode())
        assert behind.get("/queue", ("X-Remote-User", "bob")).status == 200
        answered, _, _ = select.select(channels, [], [], 0)
        assert len(answered) < 80
        for channel in channels:
            assert channel.recv(12) == b"HTTP/1.1 200"
    finally:
        for channel in channels:
            channel.close()


def test_one_user_has_half_of_those_who_may_listen(tmp_path: Path) -> None:
    home = tmp_path / "pal"
    listen = f"unix:{home}/page.sock"
    settings: dict[str, object] = {"listen": listen, "user_header": "X-Remote-User", "most_clients": 16}
    with LivePage(Site(home, settings=settings).make(), listen) as page, contextlib.ExitStack() as stack:

        def listens(user: str) -> bytes:
            channel = stack.enter_context(page.connect())
            channel.sendall(f"GET /events HTTP/1.1\r\nHost: localhost\r\nX-Remote-User: {user}\r\n\r\n".encode())
            return channel.recv(12)

        assert [listens("alice")[9:] for _ in range(6)] == [b"200"] * 4 + [b"503"] * 2
        assert listens("bob") == b"HTTP/1.1 200"


def test_who_asks_the_page_without_end_is_told_to_wait_as_at_pald_s_socket(tmp_path: Path) -> None:
    home = tmp_path / "pal"
    listen = f"unix:{home}/page.sock"
    site = Site(home, settings={"listen": listen, "user_header": "X-Remote-User"}).make()
    site.config.write_text(site.config.read_text() + "users: {per_minute: 1}\n")
    with LivePage(site, listen) as page:
        told = [page.get(f"/ask/why/{job}", ("X-Remote-User", "alice")).text for job in range(1, BURST + 4)]
        assert [TOO_OFTEN in said for said in told] == [False] * BURST + [True] * 3
        assert TOO_OFTEN not in page.get("/ask/why/1", ("X-Remote-User", "bob")).text
        assert page.get("/queue", ("X-Remote-User", "alice")).status == 200


def test_who_does_not_read_what_he_asked_for_is_let_go(tmp_path: Path) -> None:
    site = Site(tmp_path / "pal", nodes=60, slots=16, running=120, waiting=150).make()
    with LivePage(site) as page:
        channel = socket.socket()
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        channel.connect(("127.0.0.1", page.port))
        for _ in range(20):
            channel.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        channel.settimeout(1.0)

        def cut() -> bool:
            try:
                channel.send(b"\r\n")
            except OSError:
                return True
            return False

        wait_for(cut, "it is cut off", within=90.0)
        channel.close()
        assert page.get("/health").status == 200
