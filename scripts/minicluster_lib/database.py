"""The accounting database of one cluster: an empty MariaDB, copied from a template made once per version."""

import fcntl
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import config
from .errors import MiniclusterError
from .layout import Layout, cache
from .ports import Ports
from .wrappers import INSIDE_PATH


def _template() -> Path:
    tool = shutil.which("mariadbd", path=INSIDE_PATH) or "mariadbd"
    version = subprocess.run([tool, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    name = "".join(c if c.isalnum() else "-" for c in version.partition("Ver ")[2].split(" ")[0]) or "unknown"
    path = cache() / f"mariadb-{name}"
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock-mariadb").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix=".mariadb-", dir=cache()))
            try:
                _install(scratch / "data")
                (scratch / "data").rename(path)
            finally:
                shutil.rmtree(scratch)
    return path


def _install(target: Path) -> None:
    argv = ["mariadb-install-db", "--no-defaults", f"--datadir={target}", "--user=root", "--skip-test-db"]
    argv += ["--auth-root-authentication-method=normal", "--innodb-log-file-size=16M"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise MiniclusterError(f"mariadb-install-db failed:\n{done.stdout[-2000:]}")


def make(layout: Layout, ports: Ports) -> None:
    """Data directory, a user with a password nobody else knows, and slurmdbd.conf."""
    shutil.copytree(_template(), layout.spool / "mariadb")
    password = secrets.token_hex(16)
    sql = layout.etc / "mariadb.sql"
    conf = layout.etc / "slurmdbd.conf"
    for path in (sql, conf):
        path.touch(mode=0o600)
    sql.write_text(
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
        f"CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY '{password}';\n"
        "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';\n"
        "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"
    )
    conf.write_text(config.slurmdbd_conf(ports, layout, password))
