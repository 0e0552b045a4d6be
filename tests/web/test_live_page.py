"""The live page in a real browser: from the queue to a job's story to its GPU's life, on all screens, without a script
as well, and with a fleet and a queue as large as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pal_slurm.cli.palctl import palctl
from tests.web.browser import PHONE, WIDE, Browser
from tests.web.fleets import HARM, fill
from tests.web.live import LivePage, Site
from tests.web.questions import CONTRASTS, OVERFLOW

PATHS = ("/", "/?colour=A", "/queue", "/running", "/job/100", "/job/1003", "/gpu/n7:g2", "/apps", "/app/resnet50",
         "/user/alice", "/gained", "/ledger", "/health", "/nodes/0", "/nowhere")  # fmt: skip
OPEN: dict[str, object] = {"privacy": "open"}


def wait_for(condition: Callable[[], Any], what: str, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    with LivePage(Site(tmp_path_factory.mktemp("live") / "pal", settings=OPEN).make(fill)) as page:
        yield page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    texts = [text[:64] for text in HARM]
    with LivePage(Site(tmp_path_factory.mktemp("harm") / "pal", texts=texts, settings=OPEN).make(fill)) as page:
        yield page


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    """10,000 GPUs with scores, 50,000 jobs."""
    site = Site(tmp_path_factory.mktemp("large") / "pal", 1250, 8, running=2400, waiting=50_000, settings=OPEN).make()
    rows = [
        f"n{n},{slot},A100,{cls},{1 + (n * 7 + slot * 13) % 40 / 100:.2f}"
        for n in range(1, 1251) for slot in range(8) for cls in "ABC"
    ]  # fmt: skip
    table = site.home / "scores.csv"
    table.write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    done = CliRunner().invoke(palctl, ["--config", str(site.config), "scores", "import", str(table)])
    assert done.exit_code == 0, done.output
    with LivePage(site) as page:
        yield page


def test_one_walks_from_the_queue_to_a_job_s_story_to_its_gpu_s_life(browser: Browser, page: LivePage) -> None:
    browser.open(page.url + "/")
    find = browser.driver.find_element

    def follow(link: str) -> str:
        find(By.LINK_TEXT, link).click()
        return str(browser.ask("return document.querySelector('h1').textContent"))

    assert follow("Queue") == "The queue"
    assert "It would fit, but would delay a job that is ahead of it" in find(By.ID, "live").text
    assert follow("1001") == "Job 1001"
    assert "1 job is before it" in find(By.ID, "live").text
    assert follow("Running") == "Running jobs"
    assert follow("100") == "Job 100"
    story = find(By.ID, "live").text
    assert "Of everything that it may be given and that was free, this has the least step time." in story
    assert "n7:g0,g2" in story and "pinned to n1:g0,g1: done" in story
    find(By.PARTIAL_LINK_TEXT, "n1:g1").click()
    life = find(By.ID, "live").text
    assert "GPU-n1-1-0000" in life and "Night by night" in life
    assert [row.text for row in browser.driver.find_elements(By.CSS_SELECTOR, "#now + .scroll tbody th")] == ["100"]
    assert browser.console() == []


@pytest.mark.parametrize("path", PATHS)
def test_it_asks_for_nothing_but_its_own_and_the_console_is_silent(browser: Browser, page: LivePage, path: str) -> None:
    browser.open(page.url + path)
    known = [said for said in browser.console() if "404 (Not Found)" not in said]  # of the page itself
    assert known == []
    assert all(asked.startswith(page.url) for asked in browser.requests())
    assert browser.ask("return document.querySelectorAll('[style], [onclick], [onload], [onerror], style').length") == 0


@pytest.mark.parametrize("path", PATHS)
def test_it_fits_narrow_windows_and_can_be_read_in_light_and_dark(browser: Browser, page: LivePage, path: str) -> None:
    for width in (320, 768):
        browser.open(page.url + path, (width, PHONE[1]))
        assert browser.ask(OVERFLOW) == [], width
    for dark in (False, True):
        browser.open(page.url + path, WIDE, dark)
        least = browser.ask(CONTRASTS)
        assert least[0][0] >= 4.5, least


def test_everything_is_there_without_a_script(browser: Browser, page: LivePage) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for path, words in (
            ("/", "Who holds which GPU"),
            ("/queue", "12 jobs wait"),
            ("/job/100", "Placements weighed"),
        ):
            browser.open(page.url + path)
            assert words in browser.driver.find_element(By.TAG_NAME, "main").text
        assert not [asked for asked in browser.requests() if asked.endswith("/events")]
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", {"value": False})


def test_keys_alone_reach_everything(browser: Browser, page: LivePage) -> None:
    browser.open(page.url + "/")
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.ask("return document.activeElement.textContent") == "Skip to the page"
    assert browser.ask("return document.activeElement.getBoundingClientRect().height") > 10
    search = browser.driver.find_element(By.ID, "q")
    search.send_keys("n7:2", Keys.ENTER)
    wait_for(
        lambda: browser.ask("return document.querySelector('h1').textContent") == "n7:g2", "the GPU's page is there"
    )
    assert browser.ask("return [...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)")
    assert browser.ask("return [...document.querySelectorAll('input')].every(e => e.labels.length === 1)")
    assert browser.ask("return [...document.querySelectorAll('table')].every(t => t.querySelector('th[scope]'))")


def test_an_open_page_shows_what_is_new_without_being_loaded_again(browser: Browser, page: LivePage) -> None:
    browser.open(page.url + "/")
    loaded = browser.ask("return performance.timeOrigin")
    page.site.edit(555, nodes=("n13",), slots=(0, 3))
    newest = "return document.querySelector('[data-edits] li')?.textContent ?? ''"
    wait_for(lambda: browser.ask(newest).startswith("job 555 "), "the pin is shown")
    assert "pinned to n13:g0,g3: done" in browser.ask(newest)
    site = Site(page.site.home, waiting=9, running=18, settings=OPEN)
    from pal_slurm.store import open_store

    store = open_store(site.url)
    site.show(store, time.time())
    store.close()
    wait_for(
        lambda: browser.ask("return document.querySelector('[data-now=waiting]').textContent") == "9", "nine wait now"
    )
    assert browser.ask("return performance.timeOrigin") == loaded
    site.waiting = 12
    store = open_store(site.url)
    site.show(store, time.time())
    store.close()


def test_names_that_mean_harm_are_texts_in_the_browser_too(browser: Browser, hostile: LivePage) -> None:
    for path in ("/", "/queue", "/running", "/apps", "/job/100", "/job/101", "/job/102"):
        browser.open(hostile.url + path)
        assert "pwned" not in browser.driver.title
        assert browser.ask("return document.querySelectorAll('h1').length") == 1
        assert browser.ask("return document.querySelectorAll('script').length") == 1
        assert browser.ask("return getComputedStyle(document.body).display") != "none"
        assert not browser.ask("return [...document.querySelectorAll('a')].some(e => e.protocol === 'javascript:')")
        assert browser.console() == []
    hostile.site.edit(101)
    wait_for(lambda: browser.ask("return document.body.dataset.number > 0"), "the script is at work")
    assert browser.ask("return document.querySelectorAll('script').length") == 1


def test_should_something_get_past_the_policy_stops_it(browser: Browser, page: LivePage) -> None:
    browser.open(page.url + "/")
    browser.ask(
        "const s = document.createElement('script'); s.textContent = 'document.title = `pwned`';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
        "const d = document.createElement('div'); document.body.append(d);"
        'd.innerHTML = \'<p id=inner style="color: red" onclick="document.title = `pwned`">x</p>\';'
        "document.getElementById('inner').click();"
    )
    assert "pwned" not in browser.driver.title
    assert browser.ask("return getComputedStyle(document.getElementById('inner')).color") != "rgb(255, 0, 0)"
    assert " ".join(browser.console()).count("Content Security Policy") >= 3


LARGE = (
    "/", "/?colour=A", "/queue", "/queue?page=200", "/queue?page=334", "/running", "/nodes/0?colour=job",
    "/nodes/19?colour=B", "/job/100", "/job/1500", "/gpu/n625:g3", "/user/alice", "/apps", "/ledger", "/health",
)  # fmt: skip


@pytest.mark.every(3)
def test_pages_of_a_large_site_stay_small(large: LivePage) -> None:
    sizes = {path: len(large.get(path).body) for path in LARGE}
    for path, size in sizes.items():
        print(f"{size / 1000:7.1f} kB  {path}")
    assert all(large.get(path).status == 200 for path in LARGE)
    assert max(sizes.values()) < 200_000
    files = [part.split('"')[0] for part in large.get("/").text.split('"./files/')[1:]]
    assert sum(len(large.get(f"/files/{name}").body) for name in files) < 60_000


def test_a_large_site_s_map_holds_every_gpu_once_and_its_queue_every_job(browser: Browser, large: LivePage) -> None:
    browser.open(large.url + "/")
    drawn = browser.ask(
        "return [...document.querySelectorAll('.block path')]"
        ".flatMap(p => [...p.getAttribute('d').matchAll(/h(\\d+)/g)]).reduce((sum, m) => sum + Number(m[1]), 0)"
    )
    assert drawn == 10_000
    painted = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    wait_for(lambda: browser.ask(painted), "it is painted")
    print(f"/ is painted after {browser.ask(painted):.0f} ms; pal-page holds {large.resident_mb():.0f} MB")
    assert browser.ask("return document.querySelector('[data-now=held]').textContent") == "9600"
    assert browser.ask(OVERFLOW) == []
    assert "Page 334 of 334" in large.get("/queue?page=334").text  # 50,000 in pages of 150
    assert "50000 jobs wait" in large.get("/queue").text


@pytest.mark.every(3)
def test_a_hundred_open_pages_are_read_for_once(large: LivePage) -> None:
    """What pal-page reads of disks and databases while the present changes is the same for none and for a hundred."""
    assert large.process is not None
    counters = Path(f"/proc/{large.process.pid}/io")

    def read_in_five_changes() -> int:
        before = int(counters.read_text().split()[1])
        for _ in range(5):
            _see_a_change(large)
        return int(counters.read_text().split()[1]) - before

    alone = read_in_five_changes()
    channels = [large.connect() for _ in range(100)]
    try:
        for channel in channels:
            channel.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert channel.recv(100).startswith(b"HTTP/1.1 200")
        together = read_in_five_changes()
    finally:
        for channel in channels:
            channel.close()
    print(f"read in five changes: {alone / 1e6:.1f} MB with no page open, {together / 1e6:.1f} MB with a hundred")
    assert together < 1.3 * alone + 2_000_000


def _see_a_change(page: LivePage) -> None:
    before = _number(page)
    page.site.view.touch()
    wait_for(lambda: _number(page) > before, "the change was seen")


def _number(page: LivePage) -> int:
    """Which sight it is at."""
    with page.connect() as channel:
        channel.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = b""
        while b'"number":' not in heard or b"}\n" not in heard:
            heard += channel.recv(65536)
    return int(heard.partition(b'"number":')[2].partition(b",")[0])
