"""palctl run by root, on a database in the directory of another user: pald's, who may be a thief."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import PalError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be fooled into root's rights")
PAL = 65_534
COMMANDS = ("db upgrade", "pause", "db check", "db vacuum --full", "apps", "resume")
NAMES = ("pal.sqlite", "pal.sqlite-wal", "pal.sqlite-journal", "pal.sqlite-shm")


class Site:
    """pald's directory, and one that only root may enter."""

    def __init__(self, home: Path) -> None:
        self.state, self.roots, self.yaml = home / "state", home / "roots", home / "pal.yaml"
        self.state.mkdir(mode=0o750)
        os.chown(self.state, PAL, PAL)
        self.roots.mkdir(mode=0o700)
        self.yaml.write_text(f"state_dir: {self.state}\n")
        self.yaml.chmod(0o644)

    def palctl(self, words: str) -> Result:
        signal.alarm(60)
        try:
            return CliRunner().invoke(palctl, ["--config", str(self.yaml), *words.split()])
        finally:
            signal.alarm(0)

    def plant(self, kind: str, name: str, target: Path) -> None:
        path = self.state / name
        path.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(target)
        os.chown(path, PAL, PAL, follow_symlinks=False)

    def of_root(self) -> dict[str, tuple[bytes, int, int]]:
        found = {path.name: (path.read_bytes(), path.stat()) for path in self.roots.iterdir()}
        return {name: (data, about.st_mode, about.st_uid) for name, (data, about) in found.items()}

    def owners(self) -> set[tuple[int, int]]:
        return {(about.st_uid, about.st_gid) for about in (path.lstat() for path in self.state.rglob("*"))}


def late(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError("palctl waits for ever")


@pytest.fixture
def site(public_path: Path) -> Iterator[Site]:
    before = signal.signal(signal.SIGALRM, late)
    yield Site(public_path)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", ["text", "empty", "database", "none", "pipe"])
@pytest.mark.parametrize("name", NAMES)
def test_root_writes_through_nothing_that_stands_in_the_database_s_place(site: Site, name: str, kind: str) -> None:
    """Links to files of root's, of several kinds, and a pipe: nothing of root's is written, made or waited for."""
    assert site.palctl("db upgrade").exit_code == 0
    (site.roots / "text").write_text("kept")
    (site.roots / "empty").touch()
    with closing(sqlite3.connect(site.roots / "database")) as db:
        db.execute("CREATE TABLE alembic_version (version_num TEXT)")
    before = site.of_root()
    for words in COMMANDS:
        site.plant("pipe" if kind == "pipe" else "link", name, site.roots / kind)
        done = site.palctl(words)
        assert done.exit_code == 0 or isinstance(done.exception, PalError), f"palctl {words}: {done.exception!r}"
        assert site.of_root() == before, f"palctl {words}: {done.output}"


def test_what_root_s_commands_make_is_pald_s_and_what_root_asks_for_is_root_s(site: Site) -> None:
    for words in ("db upgrade", f"db backup {site.roots}/copy", "pause --reason mine", "db vacuum --full", "db check"):
        done = site.palctl(words)
        assert done.exit_code == 0, f"palctl {words}: {done.exception!r}"
    assert (site.roots / "copy").stat().st_uid == 0
    (site.state / "paused").unlink()  # root's word, for pald to read
    assert site.owners() == {(PAL, PAL)}


def test_a_directory_of_root_s_that_others_may_write_is_refused(site: Site) -> None:
    """Nobody in it is its owner: anybody of its group could put links there."""
    os.chown(site.state, 0, PAL)
    site.state.chmod(0o770)
    done = site.palctl("db upgrade")
    assert "can be written by others; run: chmod go-w" in str(done.exception)
    assert site.owners() == set()


@pytest.mark.parametrize("way", ["a link of root's", "a link in pald's directory", "a file that is root's link"])
def test_whoever_owns_the_first_step_on_the_way_is_who_counts(site: Site, way: str) -> None:
    home = site.state.parent
    if way == "a link of root's":
        (home / "there").symlink_to(site.state)
        named, made = home / "there" / "pal.sqlite", site.state / "pal.sqlite"
    elif way == "a link in pald's directory":
        (site.state / "on").symlink_to(site.roots)
        named, made = site.state / "on" / "pal.sqlite", None
    else:
        (home / "pal.sqlite").symlink_to(site.state / "pal.sqlite")
        (site.state / "pal.sqlite").touch()
        os.chown(site.state / "pal.sqlite", PAL, PAL)
        named, made = home / "pal.sqlite", site.state / "pal.sqlite"
    site.yaml.write_text(f"state_dir: {site.state}\ndatabase: {{url: 'sqlite:///{named}'}}\n")
    done = site.palctl("db upgrade")
    assert (done.exit_code == 0) == (made is not None), done.output
    assert site.of_root() == {}
    if made is not None:
        assert {path.stat().st_uid for path in site.state.glob("pal.sqlite*")} == {PAL}
