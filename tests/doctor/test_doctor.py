"""palctl doctor: a right site, many wrong in one way each, what --fix writes, files that are no settings at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.cli.palctl import palctl
from pal_slurm.doctor.advice import Health
from pal_slurm.doctor.checks.pal_lua import KEYS
from pal_slurm.doctor.examine import all_checks, examine, mended, ready
from pal_slurm.doctor.site import Site
from tests.doctor.__main__ import table
from tests.doctor.tree import PROJECT, Tree, fingerprint
from tests.doctor.wrong import WRONG, Wrong, sharing_site

OURS = ("etc/pal-slurm/", "etc/slurm/pal_lua.conf", "var/lib/pal-slurm/", "run/pal-slurm/")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def doctor(tree: Tree, *words: str) -> Result:
    """The command itself; with --root it asks no Slurm."""
    return CliRunner().invoke(palctl, ["doctor", "--root", str(tree.root), *words])


def test_nothing_is_to_be_mended_where_all_is_right(tree: Tree) -> None:
    found = tree.examined()
    assert {one.advice.health for one in found} == {Health.OK}, [one for one in found if one.advice.health != "ok"]
    assert {one.check for one in found} == {module.TITLE for module in all_checks()}
    assert doctor(tree).exit_code == 0
    told = json.loads(doctor(tree, "--json").output)
    assert told["ready"] is True and told["mended"] == []


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_a_site_that_is_wrong_in_one_way_is_told_that_and_nothing_else(tree: Tree, wrong: Wrong) -> None:
    if wrong.said == "is no Lua" and not any(map(shutil.which, ("luac", "luac5.4", "luac5.1"))):
        pytest.skip("no Lua compiler on this machine")
    wrong.make(tree)
    before = fingerprint(tree.root)
    found = tree.examined()
    [one] = [one for one in found if one.advice.health is Health.MEND]
    assert (one.check, wrong.said in one.advice.said) == (wrong.check, True), one
    assert one.advice.add, "no line to add"
    assert not ready(found)
    assert fingerprint(tree.root) == before, "looking changes nothing"


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_fix_writes_files_of_ours_only_and_what_it_says_it_mended_is_right(tree: Tree, wrong: Wrong) -> None:
    wrong.make(tree)
    before = fingerprint(tree.root)
    found = tree.examined()
    [one] = [one for one in found if one.advice.health is Health.MEND]
    done = mended(found)
    after = fingerprint(tree.root)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert all(name.startswith(OURS) for name in changed), changed
    assert bool(done) == (one.advice.fix is not None)
    left = tree.examined()
    if done:
        assert [x for x in left if x.check == wrong.check and x.advice.said == one.advice.said] == []
    else:
        assert not changed


@pytest.mark.parametrize("policy", ["{entitlement: gavel/hierarchical}", "{name: gavel}"])
def test_who_goes_by_weights_of_accounts_is_told_where_nobody_tells_them(tree: Tree, policy: str) -> None:
    def notes() -> list[str]:
        return [
            one.advice.said for one in tree.examined() if one.check == "pal.yaml" and one.advice.health is Health.NOTE
        ]

    tree.answer("sacctmgr", "", 1, "Unable to contact slurm database daemon")
    assert notes() == []  # nobody is owed anything
    tree.change("etc/pal-slurm/pal.yaml", "actuator: pin\n", f"actuator: pin\npolicy: {policy}\n")
    [said, silent] = notes()
    assert "anybody may name any account" in said
    assert "slurmdbd does not tell the weights" in silent and "Unable to contact slurm database daemon" in silent
    slurmdbd = "AccountingStorageType=accounting_storage/slurmdbd\n"
    tree.change("etc/slurm/slurm.conf", slurmdbd, f"{slurmdbd}AccountingStorageEnforce=Limits,safe\n")
    assert notes() == [silent]
    tree.change("etc/slurm/slurm.conf", "accounting_storage/slurmdbd", "accounting_storage/none")
    [said] = notes()
    assert "without slurmdbd all count the same" in said


def test_the_settings_that_can_be_mended_by_us_are(tree: Tree) -> None:
    """pal_lua.conf is gone, and so are the state directory and the one in /run: --fix, twice."""
    for path in ("etc/slurm/pal_lua.conf", "var/lib/pal-slurm", "run/pal-slurm"):
        tree.remove(path)
    first = doctor(tree, "--fix")
    assert first.output.count("mended: ") == 3
    second = doctor(tree, "--fix")
    assert "mended: " in second.output and "schema none -> " in second.output, "the database, now that it has a place"
    assert "made /run/pal-slurm/alive and /run/pal-slurm/wake" in second.output
    third = doctor(tree, "--fix", "--json")
    assert (third.exit_code, json.loads(third.output)["mended"]) == (0, [])


def test_a_site_that_only_excludes_nodes_is_asked_for_nothing_in_slurm_conf(tree: Tree) -> None:
    tree.change("etc/slurm/slurm.conf", "SchedulerParameters=bf_continue,disable_job_shrink\n", "")
    tree.change("etc/slurm/slurm.conf", "JobSubmitPlugins=lua\n", "")
    (tree.root / "etc/slurm/job_submit.lua").unlink()
    (tree.root / "etc/slurm/pal_lua.conf").unlink()
    checks = [one.check for one in tree.examined() if one.advice.health is Health.MEND]
    assert sorted(set(checks)) == ["lua", "pal_lua.conf", "slurm.conf"]
    settings = tree.root / "etc/pal-slurm/pal.yaml"
    settings.write_text(re.sub("(?m)^actuator:.*$", "", settings.read_text()) + "\nactuator: exclude\n")
    assert [one for one in tree.examined() if one.advice.health is Health.MEND] == []


def test_shadow_mode_needs_nothing_that_is_for_placing(tree: Tree) -> None:
    """A site of a Slurm that knows nothing of pal-slurm, which looks on."""
    tree.change("etc/slurm/slurm.conf", "SchedulerParameters=bf_continue,disable_job_shrink\n", "")
    for line in ("JobSubmitPlugins=lua\n", "PriorityFlags=ACCRUE_ALWAYS\n"):
        tree.change("etc/slurm/slurm.conf", line, "")
    for path in ("job_submit.lua", "pal_lua.conf", "plugstack.conf"):
        tree.remove(f"etc/slurm/{path}")
    for unit in (tree.root / "usr/lib/systemd/system").iterdir():
        unit.unlink()
    tree.remove("run/pal-slurm")
    tree.answer("sacctmgr", "")
    before = {one.check for one in tree.examined() if one.advice.health is Health.MEND}
    assert before == {"lua", "pal_lua.conf", "rights", "slurm.conf", "units"}
    tree.change("etc/pal-slurm/pal.yaml", "actuator: pin", "actuator: shadow")
    found = tree.examined()
    assert [one for one in found if one.advice.health is Health.MEND] == [] and ready(found)
    later = [one for one in found if one.advice.said.endswith("(not needed in shadow mode)")]
    assert {one.check for one in later} == before and all(one.advice.add for one in later)
    tree.change("etc/slurm/slurm.conf", "GresTypes=gpu\n", "")
    assert [one.check for one in tree.examined() if one.advice.health is Health.MEND] == ["slurm.conf"]


def test_files_of_ours_are_named_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this host, from a checkout and any virtual environment; in an image: where its package puts them."""
    (tmp_path / "empty").mkdir()
    for prefix in (sys.prefix, str(tmp_path / "empty")):
        monkeypatch.setattr(sys, "prefix", prefix)
        for name in (
            "spank/job_submit.lua",
            "spank/pal_lua.conf",
            "spank/pal_task_prolog",
            "spank/Makefile",
            "systemd",
        ):
            assert Path(Site().shared(name, "/none")).exists(), name
    assert Site(tmp_path / "empty").shared("spank/job_submit.lua", "/packaged") == "/packaged"


def test_a_pal_yaml_that_is_named_from_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(f"state_dir: {tmp_path}\n")
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(palctl, ["--config", "mine.yaml", "doctor", "--json"]).stdout
    [said] = [line["said"] for line in json.loads(told)["lines"] if line["check"] == "pal.yaml"]
    assert said == f"{tmp_path}/mine.yaml: good; actuator shadow"


def test_what_root_makes_belongs_to_pald(public_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    tree = Tree(public_path)
    tree.change("etc/passwd", "pal:x:0:990", "pal:x:4242:4243")
    for path in ("etc/pal-slurm/pal.yaml", "var/lib/pal-slurm", "run/pal-slurm"):
        tree.remove(path)
    doctor(tree, "--fix")
    doctor(tree, "--fix")

    def owner(path: str) -> tuple[int, int]:
        status = (tree.root / path).stat()
        return status.st_uid, status.st_gid

    assert owner("etc/pal-slurm/pal.yaml") == (0, 4243)
    assert owner("var/lib/pal-slurm") == owner("var/lib/pal-slurm/pal.sqlite") == (4242, 4243)
    assert {owner(f"run/pal-slurm{name}") for name in ("", "/alive", "/wake")} == {(0, 4243)}


def test_root_makes_no_file_in_a_directory_that_others_may_write(tree: Tree) -> None:
    (tree.root / "run/pal-slurm").chmod(0o777)
    tree.remove("run/pal-slurm/alive")
    assert "can replace what slurmctld opens" in doctor(tree, "--fix").output
    assert not (tree.root / "run/pal-slurm/alive").exists()


def test_before_installation_any_user_is_told_what_is_missing(tmp_path: Path) -> None:
    result = CliRunner().invoke(palctl, ["doctor", "--root", str(tmp_path)])
    assert result.exit_code == 1
    for said in ("no slurm.conf", "no user pal", "palctl config sample", "no pald.service"):
        assert said in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_site_s_own_job_submit_that_calls_ours_is_right(tree: Tree) -> None:
    (tree.root / "etc/slurm/job_submit.lua").rename(tree.root / "etc/slurm/pal_job_submit.lua")
    calls = 'dofile("/etc/slurm/pal_job_submit.lua")\nlocal pal_submit = slurm_job_submit\n'
    tree.write("etc/slurm/job_submit.lua", calls)
    assert [one for one in tree.examined() if one.check == "lua" and one.advice.health != "ok"] == []
    tree.write("etc/slurm/job_submit.lua", '-- dofile("/etc/slurm/pal_job_submit.lua")\n')
    assert "site's own" in next(one for one in tree.examined() if one.check == "lua").advice.said


def test_texts_of_the_site_can_not_steer_the_terminal(tree: Tree) -> None:
    tree.change("etc/slurm/slurm.conf", "bf_continue,disable_job_shrink", "\x1b]0;evil\x07\x9b31m")
    output = doctor(tree).output
    assert "disable_job_shrink" in output
    assert not any(char < " " and char != "\n" for char in output) and "\x9b" not in output


def test_files_that_include_each_other_come_to_an_end(tree: Tree) -> None:
    tree.write("etc/slurm/nodes.conf", "Include slurm.conf\n")
    assert any("can't be read" in one.advice.said for one in tree.examined())


JUNK = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from(
            ["NodeName=n[1-", "Gres=gpu:x:9999999999", "Include ", "=", "Name=gpu", "\\\n", "\n", '"', "GresTypes==gpu",
             "PartitionName", "NodeName=DEFAULT", "optional", "include /", "a = b", "\x00", "SwitchName=s Nodes=[",
             "lease ="]
        ),
        max_size=12,
    ).map(lambda words: " ".join(words).encode()),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(["slurm", "gres", "topology", "plugstack", "pal_lua"]), JUNK), max_size=5))
def test_no_file_is_so_wrong_that_the_doctor_falls_ill(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("junk")
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_bytes(b"GresTypes=gpu\n")
    for name, text in files:
        (root / f"etc/slurm/{name}.conf").write_bytes(text)
    found = examine(Site(root))
    assert found and not ready(found)
    shutil.rmtree(root)


def test_the_keys_of_pal_lua_conf_are_those_that_lua_reads() -> None:
    text = (PROJECT / "spank" / "job_submit.lua").read_text(encoding="utf-8")
    readers = text.partition("local READERS = {")[2].partition("\n}")[0]
    assert set(re.findall(r"^\t([a-z_]+) = ", readers, re.MULTILINE)) == set(KEYS)


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("partitions", "models", "preempt_qos")])
def test_the_line_for_a_wrong_word_in_pal_lua_conf_is_one_that_lua_takes(tree: Tree, key: str) -> None:
    file = tree.root / "etc/slurm/pal_lua.conf"
    others = [line for line in file.read_text().splitlines() if not line.startswith(f"{key} = ")]
    file.write_text("\n".join([*others, f"{key} = {{2 weeks}}"]) + "\n")

    def wrong() -> list[str]:
        return [one.advice.add for one in tree.examined() if "can't be" in one.advice.said]

    [line] = wrong()
    assert "can't have this value" in lua_says(tree)
    file.write_text("\n".join([*others, line]) + "\n")
    assert wrong() == []
    assert lua_says(tree) == ""


def lua_says(tree: Tree) -> str:
    """What the job_submit.lua of this site has in the log after a job that is none of its business."""
    words = "slurm = {SUCCESS = 0, log_info = function(form, ...) print(form:format(...)) end}; "
    words += f"dofile('{tree.root}/etc/slurm/job_submit.lua'); slurm_job_submit({{}}, {{}}, 0)"
    lua = next(filter(None, map(shutil.which, ("lua5.1", "lua5.4"))), "lua")
    return subprocess.run([lua, "-e", words], capture_output=True, text=True, timeout=20, check=True).stdout


def test_the_table_in_the_docs_is_what_the_doctor_says() -> None:
    page = (PROJECT / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert table() in page, "python -m tests.doctor prints it"


def test_a_site_whose_jobs_share_gpus_and_that_has_all_for_it_needs_no_mending(tree: Tree) -> None:
    sharing_site()(tree)
    assert {one.advice.health for one in tree.examined()} == {Health.OK}
    tree.change("etc/slurm/slurm.conf", "gres/gpu,gres/shard", "gres/gpu")
    [one] = [one for one in tree.examined() if one.advice.health is not Health.OK]
    assert (one.check, one.advice.health) == ("sharing", Health.NOTE) and "does not count shards" in one.advice.said
