"""A site as files. In: an empty directory. Out: one that needs no mending, with commands that answer from files.

The commands are stand-ins that print what a real Slurm printed once (tests/golden); tests/slurm/test_doctor.py looks at
real ones.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from pal_slurm.doctor.examine import Checked, examine
from pal_slurm.doctor.site import Site
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.store.migrate import upgrade_url

PROJECT = Path(__file__).parents[2]

SLURM_CONF = """\
ClusterName=alpha
SlurmctldHost=head
SlurmUser=slurm
AuthType=auth/munge
SelectType=select/cons_tres
SchedulerParameters=bf_continue,disable_job_shrink
PriorityType=priority/multifactor
PriorityFlags=ACCRUE_ALWAYS
JobSubmitPlugins=lua
CliFilterPlugins=cli_filter/lua
GresTypes=gpu
TopologyPlugin=topology/tree
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu
PluginDir=/usr/lib64/slurm
Include nodes.conf
"""
NODES_CONF = """\
NodeName=DEFAULT CPUs=64 RealMemory=512000
NodeName=n[1-4] Gres=gpu:g0:1,gpu:g1:1 Feature=a100
PartitionName=gpu Nodes=n[1-4] Default=YES
"""
GRES_CONF = """\
AutoDetect=off
NodeName=n[1-4] Name=gpu Type=g0 File=/dev/nvidia0
NodeName=n[1-4] Name=gpu Type=g1 File=/dev/nvidia1
"""
TOPOLOGY_CONF = """\
SwitchName=rack1 Nodes=n[1-2]
SwitchName=rack2 Nodes=n[3-4]
SwitchName=spine Switches=rack[1-2]
"""
RUNNING = """\
Configuration data as of 2026-11-18T10:09:17
ClusterName             = alpha
GresTypes               = gpu
JobSubmitPlugins        = lua
PluginDir               = /usr/lib64/slurm
PriorityFlags           = ACCRUE_ALWAYS
PriorityType            = priority/multifactor
SchedulerParameters     = bf_continue,disable_job_shrink
SLURM_CONF              = /etc/slurm/slurm.conf
SLURM_VERSION           = 25.11.2
"""


class Tree:
    """`root` is the site; `answers` what its commands print: a file by the command's name, and NAME.code."""

    def __init__(self, home: Path) -> None:
        self.root, self.answers = home / "site", home / "answers"
        self._pald()
        self._slurm()
        self._commands()

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def change(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new))

    def remove(self, path: str) -> None:
        file = self.root / path
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink()

    def answer(self, name: str, text: str, code: int = 0, says: str = "") -> None:
        """What a command prints from now on, on both its outputs, and how it ends."""
        (self.answers / name).write_text(text)
        (self.answers / f"{name}.err").write_text(says)
        (self.answers / f"{name}.code").write_text(str(code))

    def site(self) -> Site:
        return Site(self.root, commands=Commands(self.answers / "bin", 20.0))

    def examined(self) -> list[Checked]:
        return examine(self.site())

    def _slurm(self) -> None:
        self.write("etc/slurm/slurm.conf", SLURM_CONF)
        self.write("etc/slurm/nodes.conf", NODES_CONF)
        self.write("etc/slurm/gres.conf", GRES_CONF)
        self.write("etc/slurm/topology.conf", TOPOLOGY_CONF)
        self.write("etc/slurm/plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\n")
        self.write("etc/slurm/plugstack.conf.d/pal.conf", "optional pal.so\n")
        self.write("etc/slurm/pal_lua.conf", "slots = yes\nmodels = a100\n" + _meeting())
        for name in ("job_submit.lua", "cli_filter.lua"):
            shutil.copy(PROJECT / "spank" / name, self.root / "etc/slurm")
        for name in ("pal.so", "job_submit_lua.so", "cli_filter_lua.so"):
            self.write(f"usr/lib64/slurm/{name}", "")
        self.write("etc/munge/munge.key", "secret").chmod(0o400)

    def _pald(self) -> None:
        self.write(
            "etc/passwd", f"root:x:0:0::/:/bin/sh\nslurm:x:64030:64030::/:/bin/sh\npal:x:{os.getuid()}:990::/:\n"
        )
        self.write("etc/group", "pal:x:990:slurm\n")
        self.write("etc/pal-slurm/pal.yaml", "actuator: pin\ncluster: {models: [a100]}\n").chmod(0o640)
        for unit in sorted((PROJECT / "etc" / "systemd").iterdir()):
            self.write(f"usr/lib/systemd/system/{unit.name}", unit.read_text())
        self.write("usr/bin/pald", "")
        for wants, unit_name in (("multi-user", "pald.service"), ("timers", "pal-deadman.timer")):
            self.enable(wants, unit_name)
        (self.root / "run/pal-slurm").mkdir(parents=True)
        for name in ("alive", "wake"):
            self.write(f"run/pal-slurm/{name}", "")
        (self.root / "var/lib/pal-slurm").mkdir(parents=True)
        (self.root / "var/lib/pal-slurm/pal.sqlite").write_bytes(_database())

    def _commands(self) -> None:
        (self.answers / "bin").mkdir(parents=True)
        golden = (PROJECT / "tests/golden/cli/24.11/sdiag").read_text()
        at = golden.index("sdiag output at")
        line = golden[at : golden.index("\n", at)]
        self.answer("scontrol", RUNNING)
        self.answer("sdiag", golden.replace(line, "sdiag output at Thu Nov 19 2026 (NOW)"))
        self.answer("sacctmgr", "pal|Operator\n")
        self.answer("munge", "MUNGE:AwQDAAA=:\n")
        self.answer("unmunge", "STATUS: Success (0)\n")
        for name in ("scontrol", "sdiag", "sacctmgr", "munge", "unmunge"):
            script, file = self.answers / "bin" / name, self.answers / name
            script.write_text(
                f'#!/bin/sh\nahead=0\nsed "s/NOW/$(($(date +%s) + ahead))/" {file}\n'
                f"cat {file}.err >&2\nexit $(cat {file}.code)\n"
            )
            script.chmod(0o755)

    def enable(self, wants: str, unit: str) -> None:
        link = self.root / f"etc/systemd/system/{wants}.target.wants/{unit}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/usr/lib/systemd/system/{unit}")

    def clock_ahead(self, seconds: int) -> None:
        script = self.answers / "bin" / "sdiag"
        script.write_text(script.read_text().replace("ahead=0", f"ahead={seconds}"))


@cache
def _database() -> bytes:
    with tempfile.TemporaryDirectory() as home:
        upgrade_url(f"sqlite:///{home}/pal.sqlite")
        return Path(home, "pal.sqlite").read_bytes()


def _meeting() -> str:
    return "alive_file = /run/pal-slurm/alive\nwake_file = /run/pal-slurm/wake\n"


def fingerprint(root: Path) -> dict[str, bytes]:
    """Every file's content, for what must not be written."""
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}
