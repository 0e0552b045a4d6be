"""A spool that others may write: what lies in it redirects nothing, fills no memory, kills no pald, holds up nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pal_slurm.config import Config
from pal_slurm.config.profile import ProfileSection
from pal_slurm.daemon.beside import learning
from pal_slurm.daemon.beside.learning import Learner
from pal_slurm.errors import PalError
from pal_slurm.intake.reader import Entry, FileIdentity
from pal_slurm.intake.reading_process import SpoolSilent
from pal_slurm.intake.spool import FileFate, Spool, in_turn
from pal_slurm.learning.run import kernel_classes
from pal_slurm.model import homogeneous
from pal_slurm.probe import limits
from pal_slurm.store import Store
from tests.unit.spools import NOW, document, fleet, here, put, scores, shelf, take

PALCTL = Path(sys.executable).parent / "palctl"
SLOW = b"[" + b'{"a":[[],{}]},' * 400_000 + b"1]"  # seconds to parse


class Site:
    """A spool with mode 1777, pald's own directory, and files that nobody but pald and root may touch."""

    def __init__(self, home: Path, store: Store) -> None:
        self.home, self.store, self.spool, self.safe = home, store, home / "spool", home / "safe"
        self.spool.mkdir()
        self.spool.chmod(0o1777)
        self.safe.mkdir(mode=0o700)
        (self.safe / "old").write_text("untouched")
        self.config = msgspec.structs.replace(here(self.spool), profile=ProfileSection(spool=str(self.spool)))

    def bad(self, name: str) -> Path:
        path = self.spool / name
        path.write_text("text of the attacker")
        os.utime(path, (1, 1))
        return path

    def palctl(self, *before: str, **options: Any) -> subprocess.Popen[bytes]:
        """`before`: a program that runs it."""
        path = self.home / "pal.yaml"
        path.write_text(f"state_dir: {self.config.state_dir}\nprofile: {{spool: {self.spool}}}\n")
        subprocess.run([PALCTL, "--config", path, "db", "upgrade"], check=True, capture_output=True, timeout=60)
        return subprocess.Popen([*before, PALCTL, "--config", path, "ingest"], stderr=subprocess.PIPE, **options)


@pytest.fixture
def site(tmp_path: Path, sqlite_store: Store) -> Site:
    return Site(tmp_path, sqlite_store)


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)


REDIRECTIONS: dict[str, Callable[[Path, Path], object]] = {  # spool, a directory of root's
    "a reason over a file": lambda spool, safe: link(spool / "set-aside" / "x.reason", safe / "old"),
    "a reason that makes a file": lambda spool, safe: link(spool / "set-aside" / "x.reason", safe / "new"),
    "set-aside": lambda spool, safe: link(spool / "set-aside", safe),
    "taken": lambda spool, safe: link(spool / "taken", safe),
    "a lock over a file": lambda spool, safe: link(spool / ".ingest.lock", safe / "old"),
    "a lock that makes a file": lambda spool, safe: link(spool / ".ingest.lock", safe / "new"),
    "logs": lambda spool, safe: link(spool / ".logs", safe),
}


@pytest.mark.parametrize("case", REDIRECTIONS)
def test_what_a_user_made_in_the_spool_redirects_nothing(site: Site, case: str) -> None:
    REDIRECTIONS[case](site.spool, site.safe)
    site.bad("x")
    put(site.spool, document("n1", fleet(1)))
    before = {path.name for path in site.spool.iterdir()}
    done = take(site.store, site.spool)
    assert {told.name: told.fate for told in done.files}["x"] is FileFate.SET_ASIDE
    assert done.count(FileFate.TAKEN) == 1
    assert [(path.name, path.read_text()) for path in site.safe.iterdir()] == [("old", "untouched")]
    assert {path.name for path in site.spool.iterdir()} == before - {"x", "bench-n1-1789956000.json"}, "made there"
    assert (shelf(site.spool) / "set-aside" / "x").read_text() == "text of the attacker"


@pytest.mark.parametrize("name", ["lock", "mark", "seen", "set-aside", "taken"])
def test_a_link_in_pald_s_own_directory_is_refused_too(site: Site, name: str) -> None:
    """Root ingests into a directory of pal's: a stolen pald is not root."""
    shelf(site.spool).mkdir()
    (shelf(site.spool) / name).symlink_to(site.safe / "old")
    site.bad("x")
    try:
        take(site.store, site.spool)
    except PalError as error:
        assert "intake can't be used" in str(error)
    assert [(path.name, path.read_text()) for path in site.safe.iterdir()] == [("old", "untouched")]


@pytest.mark.parametrize("mode", [0o770, 0o1777])
def test_a_state_directory_that_others_may_write_is_refused(site: Site, mode: int) -> None:
    Path(site.config.state_dir).chmod(mode)
    with pytest.raises(PalError, match="can be written by others; run: chmod go-w"):
        take(site.store, site.spool)


def test_a_lock_of_a_user_s_stops_nobody(site: Site) -> None:
    (site.spool / ".ingest.lock").touch(mode=0o600)
    with subprocess.Popen(["flock", site.spool / ".ingest.lock", "sleep", "60"]) as holder:
        try:
            put(site.spool, document("n1", fleet(1)))
            assert take(site.store, site.spool).count(FileFate.TAKEN) == 1
        finally:
            holder.kill()


# Memory and time -----------------------------------------------------------------------------------------------------


# A child's memory is at first that of the process that starts it: here a small one, not pytest's.
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


@pytest.mark.parametrize("size", [60 << 20, limits.MOST_BYTES], ids=["60 MiB", "the largest that is read"])
def test_one_file_makes_nobody_larger_than_his_limit(site: Site, size: int) -> None:
    (site.spool / "big").write_bytes(b"[" + b"{}," * (size // 3 - 1) + b"1]")
    with site.palctl(sys.executable, "-c", MEASURED, stdout=subprocess.PIPE) as child:
        out, err = child.communicate(timeout=120)
    assert child.returncode == 65, err.decode()
    assert "big: set aside" in err.decode()
    assert int(out) >> 10 < 350  # palctl, and the reader that it waited for


@pytest.mark.parametrize(("kind", "most"), sorted(limits.MOST_BYTES_OF.items()))
def test_a_document_is_as_large_as_its_kind_may_be(site: Site, kind: str, most: int) -> None:
    text = to_size(kind, most + 1)
    (site.spool / "x.json").write_bytes(text)
    os.utime(site.spool / "x.json", (1, 1))
    [told] = take(site.store, site.spool).files
    assert told.fate is FileFate.SET_ASIDE
    assert f"{most + 1} bytes; a document" in told.said
    assert f"has at most {most}" in told.said


def to_size(kind: str, size: int) -> bytes:
    if kind == "job":
        head = json.dumps({"format": "pal-probe", "kind": "job", "part": 0}).encode() + b"\n"
        return head + b" " * (size - len(head) - 1) + b"\n" if size <= limits.MOST_BYTES else head
    text = json.dumps({"format": "pal-probe", "kind": kind}).encode()
    return text[:-1] + b" " * (size - len(text)) + b"}"


def reader_of(pid: int) -> int | None:
    """The process that reads, once it is parsing."""
    for entry in Path("/proc").glob("[0-9]*/status"):
        try:
            words = (entry.parent / "cmdline").read_bytes().split(b"\0")
            if f"PPid:\t{pid}\n" in entry.read_text() and b"pal_slurm.intake.reader" in words:
                return int(entry.parent.name)
        except OSError:
            continue
    return None


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def parsing(site: Site) -> bool:
    mark = shelf(site.spool) / "mark"
    return mark.exists() and mark.stat().st_size > 0


@pytest.fixture
def killing(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """palctl ingest in the middle of a file that takes seconds; another waits behind it."""
    (site.spool / "killer").write_bytes(SLOW)
    os.utime(site.spool / "killer", (1, 1))
    put(site.spool, document("n1", fleet(1)), "last.json")
    with site.palctl(start_new_session=True) as child:
        until(lambda: parsing(site))
        yield child


def test_a_file_that_kills_its_reader_is_set_aside_and_the_next_one_is_taken(
    site: Site, killing: subprocess.Popen[bytes]
) -> None:
    os.kill(until(lambda: reader_of(killing.pid)), signal.SIGKILL)
    said = killing.communicate(timeout=60)[1].decode()
    assert killing.returncode == 65, said
    assert "killer: set aside: the reader ended with it (signal 9)" in said
    assert sorted(path.name for path in (shelf(site.spool) / "set-aside").iterdir()) == ["killer", "killer.reason"]
    assert [path.name for path in (shelf(site.spool) / "taken").iterdir()] == ["last.json"]


def test_a_file_with_which_all_of_pald_was_killed_is_not_read_again(
    site: Site, killing: subprocess.Popen[bytes]
) -> None:
    """As the kernel does where MemoryMax is reached."""
    os.kill(until(lambda: reader_of(killing.pid)), signal.SIGSTOP)  # it may not end by itself
    os.killpg(killing.pid, signal.SIGKILL)
    killing.wait(60)
    assert parsing(site)
    begun = time.monotonic()
    done = take(site.store, site.spool)
    assert {told.name: told.said for told in done.files}["killer"].startswith("an earlier reader died")
    assert done.count(FileFate.TAKEN) == 1
    assert not (site.spool / "killer").exists()
    assert take(site.store, site.spool).files == []
    assert time.monotonic() - begun < 30


def test_a_pald_that_is_killed_leaves_a_good_file_for_the_next(site: Site, killing: subprocess.Popen[bytes]) -> None:
    """Its reader ends by itself, and takes the mark away."""
    os.kill(killing.pid, signal.SIGKILL)
    killing.wait(60)
    until(lambda: not parsing(site))
    done = take(site.store, site.spool)
    assert {told.name: told.fate for told in done.files} == {"killer": FileFate.SET_ASIDE, "last.json": FileFate.TAKEN}
    assert "instead of an object" in done.files[0].said


# A spool that hangs --------------------------------------------------------------------------------------------------


def test_a_spool_that_hangs_ends_the_pass_and_stands_in_status(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its reader is stopped: nothing of it moves, as in a read from an NFS server that is gone."""
    (site.spool / "slow").write_bytes(SLOW)
    os.utime(site.spool / "slow", (1, 1))
    monkeypatch.setattr("pal_slurm.intake.spool.ANSWER_S", 5.0)
    ear, cluster = Learner(site.store, "c"), homogeneous(1, 4)
    assert ear.begin_when_due(site.config, cluster, NOW)
    os.kill(until(lambda: parsing(site) and reader_of(os.getpid())), signal.SIGSTOP)
    ear.beside.wait(60)
    assert not ear.beside.busy
    assert ear.note.startswith("nothing is learned from the spool since 2026-")
    assert "has not answered within" in ear.note
    assert "has not answered within" in caplog.text
    (site.spool / "slow").unlink()
    put(site.spool, document("n1", fleet(1)))
    assert ear.begin_when_due(site.config, cluster, NOW + 60)
    ear.beside.wait(60)
    assert ear.note == ""
    assert scores(site.store) != {}


def test_a_pass_that_does_not_end_stands_in_status(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ear, cluster = Learner(site.store, "c"), homogeneous(1, 4)
    ended: list[bool] = []
    monkeypatch.setattr(learning, "ingest", lambda *_, **__: until(lambda: ended))
    assert ear.begin_when_due(site.config, cluster, NOW)
    assert not ear.begin_when_due(site.config, cluster, NOW + 100)
    assert ear.note == ""
    assert not ear.begin_when_due(site.config, cluster, NOW + 2000)
    assert "has not ended" in ear.note
    ended.append(True)


def test_without_an_answer_a_command_ends_with_a_sentence(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.spool / "slow").write_bytes(SLOW)
    monkeypatch.setattr("pal_slurm.intake.spool.ANSWER_S", 0.05)
    spool = Spool(site.spool, site.store, kernel_classes(site.store, Config()), Path(site.config.state_dir))
    with pytest.raises(SpoolSilent, match="has not answered within"):
        list(spool.take(NOW))


# Whose turn it is ----------------------------------------------------------------------------------------------------


def test_a_user_with_many_files_holds_up_himself() -> None:
    entries = [Entry(FileIdentity(f"a{n}".encode(), n, 0), 7) for n in range(4)]
    entries += [Entry(FileIdentity(name, 9, 0), uid) for name, uid in ((b"x", 1), (b"y", 1), (b"z", 2))]
    assert [entry.name for entry in in_turn(entries)] == ["a0", "x", "z", "a1", "y", "a2", "a3"]
