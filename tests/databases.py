"""Private database servers for tests. In: the programs of Debian's packages. Out: URLs of empty and migrated databases.

A server runs as an unprivileged user, in a directory of its own, on a Unix socket there; it dies with the session that
started it. Nothing is ever synced to disk: what is tested is SQL, transactions and what servers say when they can't.
"""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pal_slurm.store.migrate import upgrade_url
from pal_slurm.store.tables import metadata
from tests.turns import turn

SERVERS = ("postgresql", "mariadb")
NAMES = ("sqlite", *SERVERS)
INSTALLED = Path(sys.prefix) / "pal-databases"  # scripts/setup writes it when both servers are there
START_S = 120.0


class Server:
    """One server: started when first asked for, stopped by its process id."""

    name = ""
    user = ""  # whom the package made to run it
    socket = "socket"
    stop_signal = signal.SIGTERM

    def __init__(self, home: Path) -> None:
        self.home = home / self.name
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._template: Engine | None = None

    def programs(self) -> list[str]:
        """Where what it needs would be; a name without a slash was not found."""
        raise NotImplementedError

    def install(self) -> list[str]:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def url(self, database: str = "", user: str = "") -> str:
        raise NotImplementedError

    def require(self) -> Server:
        """Running, or the test is skipped and says why; where setup has installed it, there is no excuse."""
        missing = [program for program in self.programs() if "/" not in program]
        if missing:
            say = pytest.fail if INSTALLED.exists() else pytest.skip
            say(f"{self.name} is not installed ({', '.join(missing)}); as root: scripts/setup")
        if self.process is None:
            self.home.mkdir(mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(self.home, self.user)
            self._said(subprocess.run(self._as_user(self.install()), capture_output=True, check=False, cwd=self.home))
        if self.process is None or self.process.poll() is not None:
            self.start()
        return self

    def start(self) -> None:
        with (self.home.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(self._as_user(self.command()), stdout=log, stderr=log, cwd=self.home)
        deadline = time.monotonic() + START_S
        while True:
            if self._listens():
                with suppress(DBAPIError):  # PostgreSQL listens before it is ready
                    self.run("SELECT 1")
                    return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{self.name} did not start: {self.log()[-2000:]}")
            time.sleep(0.02)

    def _listens(self) -> bool:
        """Asked without a driver: PyMySQL leaves its socket to the garbage collector where nobody answers."""
        with socket.socket(socket.AF_UNIX) as knock:
            return knock.connect_ex(str(self.home / self.socket)) == 0

    def stop(self) -> None:
        """At once: connections are cut off."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            self.process.wait(60)

    def close(self) -> None:
        if self._template is not None:
            self._template.dispose()
        self.stop()

    def log(self) -> str:
        return (self.home.parent / f"{self.name}.log").read_text(errors="replace")

    def run(self, *statements: str, database: str = "") -> None:
        """As the server's admin, outside of transactions."""
        engine = create_engine(self.url(database), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement))

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a database without any table, for one test."""
        name = f"empty{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        yield self.url(name)
        self.require()  # a test may have stopped it
        self.run(f"DROP DATABASE {name}")

    def fresh(self) -> str:
        """The URL of the migrated database, without any row; it is migrated once and emptied for each test."""
        if self._template is None:
            self.run("CREATE DATABASE pal")
            upgrade_url(self.url("pal"))
            self._template = create_engine(self.url("pal"), pool_pre_ping=True, pool_size=1)
        with self._template.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
        return self.url("pal")

    def _as_user(self, command: Sequence[str]) -> list[str]:
        """Killed with us, also where we are killed."""
        wrapped = ["setpriv", f"--pdeathsig={signal.Signals(self.stop_signal).name.removeprefix('SIG')}"]
        if os.geteuid() == 0:
            whose = pwd.getpwnam(self.user)
            wrapped += [f"--reuid={whose.pw_uid}", f"--regid={whose.pw_gid}", "--clear-groups"]
        return [*wrapped, "--", *command]

    def _said(self, done: subprocess.CompletedProcess[bytes]) -> None:
        assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


class Postgres(Server):
    name = "postgresql"
    user = "postgres"
    socket = ".s.PGSQL.5432"
    stop_signal = signal.SIGINT  # "fast": SIGTERM waits until everybody has gone

    def programs(self) -> list[str]:
        newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
        path = os.pathsep.join([*map(str, reversed(newest)), os.environ.get("PATH", "")])
        return [shutil.which(program, path=path) or program for program in ("initdb", "postgres")]

    def install(self) -> list[str]:
        initdb, _ = self.programs()
        words = "--no-sync --auth=trust --no-locale --encoding=UTF8 --username=postgres --no-instructions"
        return [initdb, f"--pgdata={self.home}/data", *words.split()]

    def command(self) -> list[str]:
        _, postgres = self.programs()
        settings = {
            "listen_addresses": "", "unix_socket_directories": str(self.home), "fsync": "off", "autovacuum": "off",
            "full_page_writes": "off", "synchronous_commit": "off", "shared_buffers": "32MB", "max_connections": "30",
        }  # fmt: skip
        return [postgres, "-D", f"{self.home}/data", *(f"--{key}={value}" for key, value in settings.items())]

    def url(self, database: str = "", user: str = "") -> str:
        url = URL.create("postgresql+psycopg", user or "postgres", database=database or "postgres")
        return url.update_query_dict({"host": str(self.home)}).render_as_string(hide_password=False)


class Mariadb(Server):
    name = "mariadb"
    user = "mysql"

    def programs(self) -> list[str]:
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
        return [shutil.which(program, path=path) or program for program in ("mariadb-install-db", "mariadbd")]

    def install(self) -> list[str]:
        install, _ = self.programs()
        words = "--skip-test-db --auth-root-authentication-method=normal --innodb-log-file-size=16M"
        return [install, "--no-defaults", f"--datadir={self.home}/data", *words.split()]

    def command(self) -> list[str]:
        _, mariadbd = self.programs()
        words = "--skip-networking --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --performance-schema=OFF"
        words += " --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-flush-method=nosync"
        files = [f"--datadir={self.home}/data", f"--socket={self.home}/socket", f"--pid-file={self.home}/pid"]
        return [mariadbd, "--no-defaults", *files, *words.split()]

    def url(self, database: str = "", user: str = "") -> str:
        url = URL.create("mysql+pymysql", user or "root", host="localhost", database=database or "mysql")
        return url.update_query_dict({"unix_socket": f"{self.home}/socket"}).render_as_string(hide_password=False)


class Servers:
    """The servers of one test session."""

    def __init__(self) -> None:
        _remove_orphans()
        self.home = Path(tempfile.mkdtemp(prefix=f"pal-databases-{os.getpid()}-"))
        self.home.chmod(0o711)  # their users pass through
        self._servers: dict[str, Server] = {s.name: s for s in (Postgres(self.home), Mariadb(self.home))}

    def __getitem__(self, name: str) -> Server:
        return self._servers[name].require()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        shutil.rmtree(self.home)


def _remove_orphans() -> None:
    """What a killed session left; its servers died with it."""
    for path in Path(tempfile.gettempdir()).glob("pal-databases-*"):
        named = re.match(r"pal-databases-(\d+)-", path.name)
        with suppress(FileNotFoundError):  # another worker removes it too
            if named and not Path("/proc", named[1]).exists() and path.owner() == pwd.getpwuid(os.geteuid()).pw_name:
                shutil.rmtree(path, ignore_errors=True)


def asked() -> list[str]:
    """The databases to test: all, unless PAL_TEST_DATABASES names some."""
    names = os.environ.get("PAL_TEST_DATABASES", "").replace(",", " ").split()
    if unknown := set(names) - set(NAMES):
        raise pytest.UsageError(f"PAL_TEST_DATABASES: {', '.join(unknown)}: choose of {', '.join(NAMES)}")
    return names or list(NAMES)


def each(*names: str) -> list[object]:
    """Parameters: the databases named (all), each skipped where it is not asked for. Of the two servers a push tries
    one, by turns, unless somebody asks for databases by name."""
    skip = pytest.mark.skip(reason="not in PAL_TEST_DATABASES")
    marks = {name: [] if name in asked() else [skip] for name in NAMES}
    if not os.environ.get("PAL_TEST_DATABASES", "").strip():
        marks[SERVERS[turn(len(SERVERS))]].append(pytest.mark.slow)
    return [pytest.param(name, marks=marks[name]) for name in names or NAMES]
