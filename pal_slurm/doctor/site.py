"""A site as checks see it. In: a root directory, Slurm's commands. Out: texts, settings, answers; None: isn't there.

Nothing here raises for what a site lacks: that is what the checks are to say. What is asked twice is read once.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pal_slurm.config import Config, parse
from pal_slurm.config.read import Mistake
from pal_slurm.doctor.slurm_conf import SlurmConf, read_slurm_conf
from pal_slurm.errors import SlurmError
from pal_slurm.slurm.commands.cluster import read_config
from pal_slurm.slurm.commands.run import Answer, Commands, failure

PLACES = ("/etc/slurm", "/etc/slurm-llnl", "/usr/local/etc", "/opt/slurm/etc", "/usr/local/slurm/etc")
SHARES = ("/usr/share/pal-slurm", "/opt/pal-slurm/venv/share/pal-slurm")
UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_MOST_BYTES = 32 << 20


@dataclass
class Site:
    """`commands`: how to ask the running Slurm and munge; None: only files are looked at."""

    root: Path = Path("/")
    pal_yaml: str = "/etc/pal-slurm/pal.yaml"
    slurm_conf: str = ""  # empty: looked for
    commands: Commands | None = None

    # Files ---------------------------------------------------------------------------------------------------------

    def at(self, path: str) -> Path:
        """A path of the site as one of this machine."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        try:
            with self.at(path).open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return None

    def there(self, path: str) -> bool:
        return os.path.lexists(self.at(path))

    def shared(self, name: str, packaged: str) -> str:
        """A file that is installed with pal-slurm, where it is: by a package, by a wheel, in a checkout.

        `packaged`: where the package would put it."""
        places = [packaged, *(f"{share}/{name}" for share in SHARES)]
        if self.root == Path("/"):
            top = Path(__file__).parents[2]
            spank = name.startswith("spank/")
            places += [f"{sys.prefix}/share/pal-slurm/{name}", f"{top}/{name}" if spank else f"{top}/etc/{name}"]
            places += [f"{top}/etc/slurm/{name.removeprefix('spank/')}"] if spank else []
        return next((place for place in places if self.there(place)), packaged)

    def beside(self, name: str) -> str:
        """A file in the directory of slurm.conf."""
        return f"{self.conf_path.rpartition('/')[0] or '/etc/slurm'}/{name}"

    # Slurm ---------------------------------------------------------------------------------------------------------

    @cached_property
    def conf_path(self) -> str:
        """slurm.conf: as told, by SLURM_CONF, where the running slurmctld has it, or in the usual places."""
        told = self.slurm_conf or (os.environ.get("SLURM_CONF", "") if self.root == Path("/") else "")
        live = self.running.get("SLURM_CONF", "") if self.running else ""
        for path in (told, live, *(f"{place}/slurm.conf" for place in PLACES)):
            if path and (path == told or self.there(path)):
                return path
        return live

    @cached_property
    def conf(self) -> SlurmConf | None:
        return read_slurm_conf(self.conf_path, self.text) if self.conf_path else None

    @cached_property
    def _asked(self) -> tuple[dict[str, str] | None, str]:
        if self.commands is None:
            return None, "the running Slurm is not asked"
        try:
            return read_config(self.commands.read("scontrol", ("show", "config"))), ""
        except SlurmError as error:
            return None, str(error)

    @property
    def running(self) -> dict[str, str] | None:
        """The settings that slurmctld runs with."""
        return self._asked[0]

    @property
    def silence(self) -> str:
        """Why there is no `running`."""
        return self._asked[1]

    def answer(self, name: str, words: Sequence[str], stdin: bytes = b"") -> tuple[str, str]:
        """What a command printed, and why there is nothing."""
        if self.commands is None:
            return "", "the running Slurm is not asked"
        asked = self.commands
        if asked.bin_dir is not None and not (asked.bin_dir / name).exists():  # munge lies with no Slurm
            asked = Commands(None, asked.deadline_s)
        try:
            got: Answer = asked.ask(name, words, stdin)
        except SlurmError as error:
            return "", str(error)
        return (got.out.decode("utf-8", "replace"), "") if got.code == 0 else ("", str(failure(name, got)))

    # pal-slurm -----------------------------------------------------------------------------------------------------

    @cached_property
    def _pal(self) -> tuple[Config, list[Mistake]]:
        return parse(self.at(self.pal_yaml))

    @property
    def pal(self) -> Config:
        """What is right in pal.yaml; defaults for the rest."""
        return self._pal[0]

    @property
    def leases_nobody(self) -> bool:
        """pald only excludes nodes: it asks for no plugin, no lua and no line of slurm.conf."""
        return self.pal.actuator == "exclude"

    @property
    def mistakes(self) -> list[Mistake]:
        return self._pal[1]

    @cached_property
    def pal_lua(self) -> dict[str, str] | None:
        """pal_lua.conf as lua reads it; without what is wrong in it."""
        text = self.text(self.beside("pal_lua.conf"))
        if text is None:
            return None
        pairs = (line.split("=", 1) for line in map(str.strip, text.splitlines()) if "=" in line and line[0] != "#")
        return {key.strip(): value.strip() for key, value in pairs}

    def unit(self, name: str) -> tuple[str, str] | None:
        """Path and text of a unit of systemd, with its drop-ins."""
        for place in UNITS:
            if (text := self.text(f"{place}/{name}")) is not None:
                drops = (path for where in UNITS for path in sorted(self.at(f"{where}/{name}.d").glob("*.conf")))
                more = (self.text("/" + str(path.relative_to(self.root))) or "" for path in drops)
                return f"{place}/{name}", "\n".join((text, *more))
        return None

    @cached_property
    def user(self) -> str:
        """Whom pald runs as: what its unit says, else `pal`."""
        return self.user_of("pald.service", "pal")

    def user_of(self, unit: str, otherwise: str) -> str:
        text = (self.unit(unit) or ("", ""))[1]
        named = [line.partition("=")[2].strip() for line in text.splitlines() if line.startswith("User=")]
        return named[-1] if named and named[-1] else otherwise

    # People --------------------------------------------------------------------------------------------------------

    def ids(self, name: str) -> tuple[int, int] | None:
        """A user's own number and that of his first group."""
        if self.root == Path("/"):
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                return None
            return found.pw_uid, found.pw_gid
        row = self._listed("/etc/passwd", name)
        return (int(row[2]), int(row[3])) if row and row[2].isdecimal() and row[3].isdecimal() else None

    def uid(self, name: str) -> int | None:
        found = self.ids(name)
        return found[0] if found else None

    def may_read(self, name: str, path: str) -> bool:
        """As far as owner, group and mode of the file tell; whom we do not know may."""
        ids = self.ids(name)
        if ids is None:
            return True
        status = self.at(path).stat()
        bits = stat.S_IROTH | (stat.S_IRUSR * (status.st_uid == ids[0])) | (stat.S_IRGRP * (status.st_gid == ids[1]))
        return bool(status.st_mode & bits)

    def give(self, path: str, *, owner: bool = True) -> None:
        """To pald's user what root made for him: with it, or with its group alone."""
        ids = self.ids(self.user)
        if os.geteuid() == 0 and ids is not None:
            os.chown(self.at(path), ids[0] if owner else -1, ids[1], follow_symlinks=False)

    def in_group(self, name: str, group: str) -> bool:
        """Also as its first group."""
        if self.root == Path("/"):
            try:
                members, number = grp.getgrnam(group).gr_mem, grp.getgrnam(group).gr_gid
                return name in members or pwd.getpwnam(name).pw_gid == number
            except KeyError:
                return False
        there, mine = self._listed("/etc/group", group), self._listed("/etc/passwd", name)
        return bool(there and (name in there[3].split(",") or (mine and mine[3] == there[2])))

    def _listed(self, file: str, name: str) -> list[str] | None:
        rows = (line.split(":") for line in (self.text(file) or "").splitlines())
        return next((row for row in rows if row[0] == name and len(row) > 3), None)
