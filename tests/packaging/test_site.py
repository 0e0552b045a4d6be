"""The documents as a site: built without network, every page two clicks away, searchable, dead links refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.packaging.root import PROJECT

pytestmark = pytest.mark.slow  # mkdocs-material, from the index

PAGES = sorted(path.relative_to(PROJECT) for path in (PROJECT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def mkdocs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("mkdocs") / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=300)
    pip: list[str | Path] = [
        home / "bin" / "pip",
        "-q",
        "--disable-pip-version-check",
        "install",
        "mkdocs-material>=9.5",
    ]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return home / "bin" / "mkdocs"


def build(project: Path, out: Path, mkdocs: Path) -> subprocess.CompletedProcess[str]:
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*alone, project / "scripts" / "docs", out], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"MKDOCS": str(mkdocs)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(mkdocs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(PROJECT, out, mkdocs)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def links(page: Path) -> set[Path]:
    found = re.findall(r'<a\b[^>]*\bhref="([^"#?]+)', page.read_text(encoding="utf-8"))
    return {(page.parent / unquote(link)).resolve() for link in found if not re.match(r"[a-z]+:", link)}


def test_every_page_is_two_clicks_away_and_no_link_is_dead(site: Path) -> None:
    first = site / "index.html"
    one = links(first)
    two = one | {there for page in one if page.suffix == ".html" for there in links(page)}
    wanted = {site / str(page).replace("README.md", "index.html").replace(".md", ".html") for page in PAGES}
    assert {str(page.relative_to(site)) for page in wanted - two - {first}} == set()
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # which stands anywhere
    dead = {str(there) for page in pages for there in links(page) if not there.exists()}
    assert dead == set()


def test_every_heading_of_every_page_is_one_there_too(site: Path) -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", (PROJECT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        made = (site / str(page).replace("README.md", "index.html").replace(".md", ".html")).read_text(encoding="utf-8")
        assert len(re.findall(r"^##+ ", text, re.MULTILINE)) == len(re.findall(r"<h[2-6] id=", made)), page


def test_nothing_comes_from_another_host(site: Path) -> None:
    loaded = r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"'
    assert {
        link for page in site.rglob("*.html") for link in re.findall(loaded, page.read_text(encoding="utf-8"))
    } == set()


def test_the_search_knows_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    known = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {str(page).replace("README.md", "index.html").replace(".md", ".html") for page in PAGES} <= known
    assert any("disable_job_shrink" in entry["text"] for entry in index["docs"])


@pytest.mark.parametrize("link", ["no-such-page.md", "admin.md#no-such-place"])
def test_a_dead_link_ends_it(mkdocs: Path, tmp_path: Path, link: str) -> None:
    project = tmp_path / "project"
    for name in ("docs", "etc", "scripts"):
        shutil.copytree(PROJECT / name, project / name)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "mkdocs.yml"):
        shutil.copy(PROJECT / name, project)
    with (project / "docs" / "start.md").open("a") as page:
        page.write(f"\n[gone]({link})\n")
    done = build(project, tmp_path / "out", mkdocs)
    assert done.returncode != 0
    assert link.partition("#")[2] in done.stderr and "start.md" in done.stderr, done.stderr
