"""palctl doctor beside real slurmctlds: what is made wrong is told, nothing else, and the line given mends it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.doctor.examine import examine
from pal_slurm.doctor.site import Site
from pal_slurm.slurm.commands.run import Commands
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import mark_of

Make = Callable[..., Minicluster]
Told = dict[tuple[str, str], dict[str, str]]


class Doctor:
    """The command, as on the host of this slurmctld; `mends` are its lines by check and sentence."""

    def __init__(self, cluster: Minicluster, home: Path) -> None:
        self.cluster, self.yaml = cluster, home / "pal.yaml"
        run = cluster.dir / "run"
        self.yaml.write_text(
            f"cluster: {{bin_dir: {cluster.bin}, models: [a100], timeout_s: 5}}\n"
            f"actuator: pin\nstate_dir: {home}\nmetrics: {{listen: ''}}\n"
            f"cycle: {{wake_file: {run}/pald.wake, alive_file: {run}/pald.alive}}\n"
        )

    def mends(self) -> Told:
        words = ["--config", str(self.yaml), "doctor", "--json", "--slurm-conf", str(self.cluster.etc / "slurm.conf")]
        result = CliRunner().invoke(palctl, words)
        lines = json.loads(result.output)["lines"]
        found = {(line["check"], line["said"]): line for line in lines if line["health"] == "mend"}
        assert result.exit_code == (1 if found else 0)
        return found


@pytest.fixture
def doctor(minicluster: Minicluster, tmp_path: Path) -> Doctor:
    return Doctor(minicluster, tmp_path)


def conf(cluster: Minicluster, old: str, new: str, file: str = "slurm.conf") -> None:
    path = cluster.etc / file
    text = path.read_text()
    assert re.search(old, text), f"{file} has no {old}"
    path.write_text(re.sub(old, new, text, count=1))


def test_of_slurm_itself_nothing_is_to_be_mended(doctor: Doctor) -> None:
    """A mini-cluster has neither user pal nor units; all else is right."""
    assert {check for check, _ in doctor.mends()} <= {"rights", "units", "database"}


# What is written into a file, the check that says so, and a part of its sentence.
FILES = [
    ("slurm.conf", "SelectType=.*", "SelectType=select/linear", "slurm.conf", "single GPUs"),
    ("slurm.conf", "GresTypes=gpu", "GresTypes=mps", "slurm.conf", "knows no GPUs"),
    ("slurm.conf", "JobSubmitPlugins=lua\n", "", "slurm.conf", "no job gets a lease"),
    ("slurm.conf", r"\Z", "SchedulerParameters=bf_interval=30\n", "slurm.conf", "stands 2 times"),
    ("slurm.conf", "AuthInfo=socket=", "AuthInfo=socket=/nowhere", "munge", "no credential"),
    ("slurm.conf", r"\Z", "Include /nowhere.conf\n", "slurm.conf", "/nowhere.conf"),
    ("gres.conf", "NodeName=.* Type=g3 .*\n", "", "gres.conf", "4 GPUs, gres.conf names 3"),
    ("gres.conf", "AutoDetect=off", "AutoDetect=nvml", "gres.conf", "clash"),
    ("gres.conf", "/gpu1\n", "/gpu0\n", "gres.conf", "two lines"),
    ("topology.conf", r"n\[1-8\]", "n[1-7]", "topology", "n8: in no switch"),
    ("job_submit.lua", r"(?s)local undo.*", "", "lua", "is no Lua"),
    ("job_submit.lua", r"(?s).*", "return 0\n", "lua", "site's own"),
    ("pal_lua.conf", "slots = yes", "slots = no", "pal_lua.conf", "have slot types"),
    ("pal_lua.conf", "pald.alive", "other.alive", "pal_lua.conf", "never meet"),
    ("pal_lua.conf", "slots = yes", "slots = yes\nlease = 9000", "pal_lua.conf", "can't be '9000'"),
    ("plugstack.conf", "optional", "required", "plugstack", "required"),
    ("plugstack.conf", "/lib/pal.so", "/lib/none/pal.so", "plugstack", "not there"),
]


@pytest.mark.every(2)
@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
@pytest.mark.parametrize(("file", "old", "new", "check", "said"), FILES, ids=[f"{f[0]}: {f[4]}" for f in FILES])
def test_a_file_that_is_wrong_is_told_and_nothing_else(
    doctor: Doctor, file: str, old: str, new: str, check: str, said: str
) -> None:
    before = doctor.mends()
    conf(doctor.cluster, old, new, file)
    found = set(doctor.mends().keys() - before.keys())
    if file == "slurm.conf":  # Slurm's own commands read it too, and some of them give up
        found = {told for told in found if told[0] != "Slurm"}
    [(named, sentence)] = found
    assert (named, said in sentence) == (check, True), sentence


def test_a_slurmctld_that_runs_without_a_setting_is_told_twice_over_and_the_lines_mend_it(doctor: Doctor) -> None:
    cluster, before = doctor.cluster, doctor.mends()
    conf(cluster, "disable_job_shrink,", "")
    cluster.client("scontrol", "reconfigure")
    [told] = [line for key, line in doctor.mends().items() if key not in before]
    assert told["where"].endswith(", in its place")
    number = int(told["where"].partition(",")[0].rpartition(":")[2])
    lines = (cluster.etc / "slurm.conf").read_text().splitlines()
    lines[number - 1] = told["add"]
    (cluster.etc / "slurm.conf").write_text("\n".join(lines) + "\n")
    [told] = [line for key, line in doctor.mends().items() if key not in before]
    assert "the running slurmctld does not" in told["said"]
    cluster.client(*told["add"].split())
    assert doctor.mends().keys() == before.keys()


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_slurmctld_that_is_gone_or_hangs_is_told(doctor: Doctor) -> None:
    with doctor.cluster.stopped():
        assert any(check == "Slurm" for check, _ in doctor.mends())
    with doctor.cluster.frozen():
        assert any(check == "Slurm" for check, _ in doctor.mends())
    assert not any(check == "Slurm" for check, _ in doctor.mends())


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_site_s_own_job_submit_calls_ours_by_the_lines_that_are_given(doctor: Doctor) -> None:
    cluster = doctor.cluster
    ours, own = cluster.etc / "job_submit.lua", "function slurm_job_submit(job, partitions, uid)\n{}\nend\n"
    other = cluster.etc / "pal_job_submit.lua"
    text = ours.read_text()
    ours.write_text(own.format("return slurm.SUCCESS") + "function slurm_job_modify() return slurm.SUCCESS end\n")
    [told] = [line for (check, _), line in doctor.mends().items() if check == "lua"]
    last = told["where"].rpartition(": ")[2]
    other.write_text(text)
    try:
        ours.write_text(f"{told['add']}\n{own.format(last)}return slurm.SUCCESS\n")
        assert not any(check == "lua" for check, _ in doctor.mends())
        cluster.client("scontrol", "reconfigure")
        with cluster.leases():
            assert mark_of(cluster, cluster.submit("--comment=app:resnet", "--gres=gpu:1"))
    finally:
        other.unlink()


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_who_is_no_operator_becomes_one_by_the_line_that_is_given(make_minicluster: Make, tmp_path: Path) -> None:
    cluster = make_minicluster("--nodes", "1", "--dbd")
    pal_yaml = tmp_path / "pal.yaml"
    pal_yaml.write_text("actuator: pin\n")  # in shadow mode nobody needs to be one
    conf_file = str(cluster.etc / "slurm.conf")
    site = Site(slurm_conf=conf_file, pal_yaml=str(pal_yaml), commands=Commands(cluster.bin, 15.0))
    site.user = "nobody"

    def rights() -> tuple[str, str]:
        [one] = [found.advice for found in examine(site) if found.check == "rights"]
        return one.health, one.add

    health, line = rights()
    assert health == "mend"
    cluster.client(*line.split())
    assert rights() == ("ok", "")
