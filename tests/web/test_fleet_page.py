"""The fleet's page in a real browser: it stands alone, shows what is stored, and fits screens, paper and dark rooms."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pal_slurm.cli.palctl import palctl
from tests.web.browser import PHONE, WIDE, Browser
from tests.web.fleets import HARM
from tests.web.questions import CELLS, COLOURS, CONTRASTS, OVERFLOW, STRANGERS


def figures(page: Path) -> dict[str, Any]:
    """What --json says of the same database."""
    done = CliRunner().invoke(palctl, ["--config", str(page.parent / "pal.yaml"), "report", "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*(int(colour[i : i + 2], 16) for i in (1, 3, 5)))


@pytest.mark.parametrize("which", ["small", "large", "hostile"])
def test_the_page_stands_alone(browser: Browser, which: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(which)
    browser.open(page)
    assert browser.console() == []
    assert browser.requests() == [page.as_uri()]
    assert browser.ask("return document.querySelectorAll(arguments[0]).length", STRANGERS) == 0
    assert browser.ask("return performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("which", ["small", "large"])
def test_every_cell_shows_its_score_in_its_colour(browser: Browser, which: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(which)
    browser.open(page)
    browser.ask("document.querySelectorAll('details.fold').forEach(d => d.open = true)")
    cells, colours = browser.ask(CELLS), browser.ask(COLOURS)
    told = figures(page)
    edges = (0.95, 0.98, 1.02, 1.05, 1.10, 1.20, 1.30)
    for cls in told["classes"]:
        expected = {f"{gpu['node']}:{gpu['slot']}": gpu["marks"][cls] for gpu in told["gpus"]}
        assert cells[cls].keys() == expected.keys()
        for place, mark in expected.items():
            text, background, letters = cells[cls][place]
            if mark["state"] == "never":
                assert text == "–"
                continue
            assert text == f"{mark['score']:.2f}"
            if mark["state"] == "fresh":
                level = sum(mark["score"] >= edge for edge in edges)
                assert (background, letters) == (rgb(colours[f"--h{level}"]), rgb(colours[f"--t{level}"])), place
            else:
                assert background == rgb(colours["--page"])


def test_stale_and_never_profiled_gpus_are_told_apart(browser: Browser, small: Path) -> None:
    states = {gpu["node"]: gpu["marks"]["A"]["state"] for gpu in figures(small)["gpus"]}
    assert (states["n1"], states["n15"], states["n16"]) == ("fresh", "stale", "never")
    browser.open(small)
    text = browser.ask("return document.querySelector('#coverage').parentElement.innerText")
    assert "Stale for some class: n15" in text
    assert "Never profiled for some class: n16" in text


def test_the_small_pictures_of_a_large_fleet_hold_every_gpu_once(browser: Browser, large: Path) -> None:
    browser.open(large)
    paths: list[list[str]] = browser.ask(
        "return [...document.querySelectorAll('.strip')].map(s => [...s.querySelectorAll('path')]"
        ".map(p => p.getAttribute('d')))"
    )
    drawn = sum(int(n) for strip in paths for path in strip for n in re.findall(r"h(\d+)", path))
    assert drawn == 250 * 8 * 3
    assert browser.ask("return document.querySelectorAll('details.fold[open]').length") == 0


@pytest.mark.parametrize("which", ["small", "large", "hostile"])
@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_sticks_out_of_a_narrow_window(
    browser: Browser, which: str, width: int, request: pytest.FixtureRequest
) -> None:
    browser.open(request.getfixturevalue(which), (width, PHONE[1]))
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask(OVERFLOW) == []


def test_letters_on_a_phone_are_not_tiny(browser: Browser, small: Path) -> None:
    browser.open(small, PHONE)
    least = browser.ask(
        "return Math.min(...[...document.querySelectorAll('td, th, dd, dt, p, text')].map(e => {"
        " const svg = e.closest('svg'), size = parseFloat(getComputedStyle(e).fontSize);"
        " return svg ? size * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : size; }))"
    )
    assert least >= 9


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("which", ["small", "large"])
def test_everything_can_be_read(browser: Browser, which: str, dark: bool, request: pytest.FixtureRequest) -> None:
    browser.open(request.getfixturevalue(which), WIDE, dark)
    browser.ask("document.querySelectorAll('details').forEach((d, i) => d.open = i < 3)")
    least = browser.ask(CONTRASTS)
    assert least[0][0] >= 4.5, least


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_numbers_can_be_read_on_every_heat_colour(browser: Browser, small: Path, dark: bool) -> None:
    browser.open(small, WIDE, dark)
    colours = browser.ask(COLOURS)
    for n in range(8):
        ink, paper = (_luminance(colours[f"--{kind}{n}"]) for kind in "th")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, n


def _luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return sum(weight * v for weight, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_dark_mode_changes_every_colour_of_the_map(browser: Browser, small: Path) -> None:
    browser.open(small)
    light = browser.ask(COLOURS)
    cells = browser.ask(CELLS)
    browser.media(dark=True)
    dark = browser.ask(COLOURS)
    assert _luminance(light["--page"]) > 0.9 > 0.05 > _luminance(dark["--page"])
    assert [name for name in light if light[name] == dark[name] and not name.startswith("--t")] == []
    assert browser.ask(CELLS)["A"]["n7:2"] != cells["A"]["n7:2"]


def test_paper_is_light_also_in_the_dark(browser: Browser, small: Path) -> None:
    browser.open(small, WIDE, dark=True)
    browser.media(dark=True, media="print")
    assert browser.ask("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("return getComputedStyle(document.querySelector('nav')).display") == "none"
    paper = browser.pdf()
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 2


def test_hostile_texts_are_texts(browser: Browser, hostile: Path) -> None:
    browser.open(hostile)
    assert "pwned" not in browser.driver.title.replace(HARM[2], "")
    shown = browser.ask("return document.body.textContent")
    for text in HARM:
        escaped = text if text.isprintable() else text.encode("unicode_escape").decode()
        assert escaped in shown, text
    assert browser.ask("return document.querySelectorAll('h1').length") == 1
    assert browser.ask("return document.querySelectorAll('style').length") == 1
    assert browser.ask("return getComputedStyle(document.body).display") != "none"
    assert not browser.ask("return [...document.querySelectorAll('*')].some(e => e.href?.startsWith('javascript'))")


def test_should_something_get_past_the_policy_stops_it(browser: Browser, small: Path) -> None:
    browser.open(small)
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
    said = " ".join(browser.console())
    assert said.count("Content Security Policy") >= 3


def test_the_page_is_made_for_readers_of_all_kinds(browser: Browser, small: Path) -> None:
    browser.open(small)
    assert browser.ask("return document.documentElement.lang") == "en"
    levels = browser.ask("return [...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    unnamed = browser.ask(
        "return [...document.querySelectorAll('svg')].filter(s => s.getAttribute('aria-hidden') !== 'true'"
        " && !(s.getAttribute('role') === 'img' && s.getAttribute('aria-label'))).length"
    )
    assert unnamed == 0
    headless = browser.ask(
        "return [...document.querySelectorAll('table')].filter(t => !t.querySelector('th[scope]')).length"
    )
    assert headless == 0
    lost = browser.ask(
        "return [...document.querySelectorAll('a[href^=\"#\"], [aria-labelledby]')].map(e => e.hash?.slice(1)"
        " ?? e.getAttribute('aria-labelledby')).filter(id => !document.getElementById(id))"
    )
    assert lost == []
    twice = browser.ask("const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
                        "return ids.filter((id, i) => ids.indexOf(id) !== i)")  # fmt: skip
    assert twice == []


def test_keys_alone_reach_and_open_everything(browser: Browser, large: Path) -> None:
    browser.open(large)
    body = browser.driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert browser.ask("return document.activeElement.textContent") == "Skip to the figures"
    assert browser.ask("return document.activeElement.getBoundingClientRect().height") > 10
    fold = browser.driver.find_element(By.CSS_SELECTOR, "details.fold > summary")
    fold.send_keys(Keys.ENTER)
    assert browser.ask("return document.querySelector('details.fold').open")
    reachable = browser.ask("return [...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)")
    assert reachable


def test_people_who_see_no_red_or_green_still_see_what_is_slow(browser: Browser, small: Path) -> None:
    """Slow and fast differ in more than hue: what is slow falls in lightness, step by step; in the dark it rises."""
    for dark in (False, True):
        browser.open(small, WIDE, dark)
        colours = browser.ask(COLOURS)
        light = [_luminance(colours[f"--h{n}"]) for n in range(2, 8)]
        assert light == sorted(light, reverse=not dark)


def test_pictures_say_what_the_figures_say(browser: Browser, small: Path) -> None:
    told = figures(small)
    browser.open(small)
    titles = browser.ask("return [...document.querySelectorAll('svg title')].map(t => t.textContent)")
    for histogram in told["histograms"]:
        assert sum(bar["gpus"] for bar in histogram["bars"]) == histogram["gpus"] == 56
        for bar in histogram["bars"]:
            if bar["gpus"]:
                assert f"{bar['low']:.3f} to {bar['high']:.3f}: {bar['gpus']} GPUs" in titles
    for app in told["apps"]:
        assert any(title.startswith(f"{app['app']}: class {app['cls']}, ") for title in titles)
    cards = browser.ask("return [...document.querySelectorAll('.cards h3')].map(h => h.innerText.split(/\\s+/))")
    assert cards == [[f"{w['node']}:g{w['slot']}", f"{w['score']:.2f}"] for w in told["worst"]]
    assert cards[0][0] == "n7:g2"
