"""Where things of one cluster lie: name -> paths. Nothing here touches the disk but `home`."""

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import MiniclusterError

PROJECT = Path(__file__).resolve().parent.parent.parent
# A Unix socket's address holds 107 bytes, and the longest of ours is DIR/run/control.
_LONGEST_DIR = 80


def cache() -> Path:
    return Path(os.environ.get("PAL_CACHE") or "/var/cache/pal-slurm").absolute()


def home() -> Path:
    """The directory of all clusters; refuses one that somebody else could have prepared for us."""
    path = Path(os.environ.get("PAL_MINICLUSTER_HOME") or "/tmp/pal-minicluster").absolute()
    if path.is_symlink() or (path.exists() and path.stat().st_uid not in (0, os.getuid())):
        raise MiniclusterError(f"{path} is a link or not yours: remove it, or set PAL_MINICLUSTER_HOME")
    return path


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster."""

    dir: Path

    @classmethod
    def of(cls, name: str) -> "Layout":
        path = home() / name
        if len(str(path)) > _LONGEST_DIR:
            raise MiniclusterError(f"{path} is too long for Unix sockets: set PAL_MINICLUSTER_HOME to a shorter path")
        if any(c.isspace() or c in "'\"\\#,[]%" for c in str(path)):
            raise MiniclusterError(f"{path}: blanks, quotes and any of #,[]% in the path would break slurm.conf")
        return cls(path)

    @property
    def name(self) -> str:
        return self.dir.name

    @property
    def etc(self) -> Path:
        return self.dir / "etc"

    @property
    def log(self) -> Path:
        return self.dir / "log"

    @property
    def run(self) -> Path:
        return self.dir / "run"

    @property
    def bin(self) -> Path:
        return self.dir / "bin"

    @property
    def tools(self) -> Path:
        """First in PATH inside the cluster: palwork."""
        return self.dir / "tools"

    @property
    def lib(self) -> Path:
        return self.dir / "lib"

    @property
    def build(self) -> Path:
        """The plugin's sources, until it is built."""
        return self.dir / "build"

    @property
    def spool(self) -> Path:
        return self.dir / "spool"

    @property
    def dev(self) -> Path:
        return self.dir / "dev"

    @property
    def homes(self) -> Path:
        """Of the users that only the cluster has."""
        return self.dir / "home"

    @property
    def pald(self) -> Path:
        """pald's own directory."""
        return self.dir / "pald"

    @property
    def pald_spool(self) -> Path:
        return self.spool / "pal"

    @property
    def users_socket(self) -> Path:
        """Where users ask pald."""
        return self.run / "users.sock"

    @property
    def pal_yaml(self) -> Path:
        return self.etc / "pal.yaml"

    @property
    def conf(self) -> Path:
        return self.etc / "slurm.conf"

    @property
    def spec(self) -> Path:
        return self.dir / "spec.json"

    @property
    def facts(self) -> Path:
        """What `up` found and chose: ports, uuid, release's root."""
        return self.dir / "facts.json"

    @property
    def keeper(self) -> Path:
        """`PID STARTTIME` of the keeper."""
        return self.run / "keeper"

    @property
    def control(self) -> Path:
        return self.run / "control"

    @property
    def world(self) -> Path:
        """Mount point of the mark that only processes of the cluster see."""
        return self.run / "world"

    @property
    def munge_socket(self) -> Path:
        return self.run / "munge" / "socket"
