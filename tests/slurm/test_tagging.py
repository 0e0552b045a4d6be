"""Tagging and leases on real slurmctlds: the SPANK plugin and job_submit.lua, with no pald anywhere.

Each release gets a cluster of its own with two a100 and two v100 nodes, named by slot, because the settings of
job_submit.lua are part of what is tried.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.slurm.minicluster import PROJECT, Minicluster, wait_for
from tests.slurm.tagged import LONG, Tagged

SOURCE = (PROJECT / "spank" / "job_submit.lua").read_text()


@pytest.fixture(scope="module")
def cluster(release: str) -> Iterator[Minicluster]:
    options = ["--nodes", "4", "--models", "a100=2,v100=2", "--partitions", "other=n[1-4]"]
    own = Minicluster.up(f"t{os.getpid()}-tag-{release}", release, *options)
    yield own
    own.down()


@pytest.fixture
def tagged(cluster: Minicluster) -> Iterator[Tagged]:
    cluster.reset()
    cluster_with_words = Tagged(cluster)
    cluster_with_words.settings()
    yield cluster_with_words
    assert "drain" not in cluster.client("sinfo", "-h", "-o", "%T")


# The option ----------------------------------------------------------------------------------------------------------


def test_the_option_becomes_a_word_of_the_comment_in_every_client(tagged: Tagged) -> None:
    tagged.settings(lease="1")
    assert tagged.comment(tagged.submit("--pal-app=resnet")) == "app:resnet"
    assert tagged.comment(tagged.submit(script="#!/bin/sh\n#SBATCH --pal-app=bert.v2+x\ntrue\n")) == "app:bert.v2+x"
    look = ["sh", "-c", 'scontrol show job "$SLURM_JOB_ID"']
    assert "Comment=app:gpt" in tagged.said("srun", "--pal-app=gpt", "--gres=gpu:1", *look)
    assert "Comment=app:gpt" in tagged.said("salloc", "--pal-app=gpt", "--gres=gpu:1", *look)


@pytest.mark.parametrize("name", ["", "a b", "a\x1b[31m", "A" * 65, "$(id)", "-x", "naïve", "a\nb", "app:x"])
def test_a_wrong_name_fails_at_submit_with_a_sentence_and_leaves_nothing(tagged: Tagged, name: str) -> None:
    for client, command in (("sbatch", "--wrap=true"), ("srun", "true"), ("salloc", "true")):
        run = tagged.run(client, f"--pal-app={name}", command)
        assert run.returncode != 0
        ours = [line for line in run.stderr.splitlines() if "pal: --pal-app" in line]
        assert len(ours) == 1
        assert ours[0].isprintable()
    assert tagged.said("squeue", "-h") == ""


def test_the_option_takes_the_place_of_the_comments_own_app_and_keeps_its_other_words(tagged: Tagged) -> None:
    job = tagged.submit("--pal-app=resnet", "--comment=run 7 app:bert pal:off", "--hold")
    assert tagged.comment(job) == "run 7 app:resnet pal:off"
    assert tagged.comment(tagged.submit("--comment=app:bert hello", "--hold")) == "app:bert hello"


def test_tasks_find_the_application_and_its_class(tagged: Tagged) -> None:
    script = "#!/bin/sh\n#SBATCH --pal-app=resnet\n"
    script += 'echo "$PAL_APP $PAL_CLASS"\nsrun sh -c \'echo "$PAL_APP $PAL_CLASS"\'\n'
    script += "srun --pal-app=nobody-knows sh -c 'echo \"$PAL_APP [$PAL_CLASS]\"'\n"
    # On a busy machine srun says that the node has not yet forgotten the step before.
    said = [line for line in tagged.output(script=script).splitlines() if not line.startswith("srun: ")]
    assert said == ["resnet A", "resnet A", "nobody-knows []"]
    assert tagged.comment(tagged.submit("--export=NIL", "--pal-app=resnet")) == "app:resnet"


def test_a_bad_name_that_reaches_a_node_is_dropped_and_costs_nothing(tagged: Tagged) -> None:
    script = 'export _SLURM_SPANK_OPTION_pal_pal_app="a b"\necho "[$PAL_APP]"\nsrun sh -c \'echo "[$PAL_APP]"\'\n'
    assert tagged.output("--export=ALL,_SLURM_SPANK_OPTION_pal_pal_app=a;b", script=script).split() == ["[]", "[]"]


def test_a_plugin_with_wrong_arguments_or_without_its_file_costs_nothing(tagged: Tagged) -> None:
    plugstack = tagged.cluster.etc / "plugstack.conf"
    right = plugstack.read_text()
    plugin = right.split()[1]
    script = "srun sh -c 'echo \"$PAL_APP\"'\n"
    try:
        for wrong in (f"{plugin} klasses=/x", f"{plugin} classes=relative", f"{plugin} classes=/nonexistent"):
            plugstack.write_text(f"optional {wrong}\n")
            assert tagged.output("--pal-app=resnet", script=script).split() == ["resnet"]
        plugstack.write_text("optional /nonexistent/pal.so\n")
        assert tagged.comment(tagged.submit("--comment=app:resnet")) == "app:resnet"
    finally:
        plugstack.write_text(right)


# The lease -----------------------------------------------------------------------------------------------------------


def test_a_gpu_job_waits_under_a_lease_with_a_mark(tagged: Tagged) -> None:
    before = int(time.time())
    job = tagged.submit("--gres=gpu:2", "-N1-2", "-p", "gpu", "-C", "rack1")
    mark = tagged.mark(job)
    assert before + LONG <= int(mark["b"]) <= time.time() + LONG
    separator = ":" if tagged.cluster.release == "22.05" else "/"
    expected = {"b": mark["b"], "n": f"gres{separator}gpu:2", "N": "1-2", "P": "gpu", "f": "rack1"}
    assert mark == expected
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(int(mark["b"])))
    assert tagged.field(job, "StartTime") == begin
    assert tagged.field(job, "JobState") == "PENDING"
    assert tagged.mark(tagged.submit("--gres=gpu:1", "-w", "n2"))["r"] == "1"


@pytest.mark.parametrize(
    "options",
    [
        ["-n1"],
        ["--gres=gpu:1", "-p", "other"],
        ["--gres=gpu:1", "--deadline=now+70minutes", "-t60"],
        ["--gres=gpu:1", "--dead=now+70minutes", "-t60"],
    ],
    ids=" ".join,
)
def test_these_jobs_get_no_lease(tagged: Tagged, options: list[str]) -> None:
    job = tagged.submit(*options)
    assert tagged.field(job, "AdminComment") == ""


@pytest.mark.parametrize(
    "options",
    [["--comment=pal:off"], ["--hold"], ["--begin=now"], ["-p", "gpu,other"], ["--dependency=singleton", "-J", "x"]],
    ids=" ".join,
)
def test_these_jobs_are_leased_all_the_same(tagged: Tagged, options: list[str]) -> None:
    job = tagged.submit("--gpus=1", *options)
    assert int(tagged.mark(job)["b"]) > time.time()


def test_a_begin_time_of_the_users_own_stands_in_the_mark(tagged: Tagged) -> None:
    before = int(time.time())
    far, soon = (tagged.submit("--gpus=1", f"--begin=now+{s}") for s in (3600, 60))
    assert tagged.mark(far)["b"] == tagged.mark(far)["u"] and int(tagged.mark(far)["u"]) >= before + 3600
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(int(tagged.mark(far)["u"])))
    assert tagged.field(far, "StartTime") == begin
    assert int(tagged.mark(soon)["b"]) >= before + LONG > int(tagged.mark(soon)["u"])


def test_a_deadline_in_the_script_is_seen(tagged: Tagged) -> None:
    job = tagged.submit(script="#!/bin/sh\n#SBATCH --deadline=now+70minutes -t60\n#SBATCH --gpus=1\ntrue\n")
    assert tagged.field(job, "AdminComment") == ""


def test_a_tight_deadline_is_accepted_as_without_us(tagged: Tagged) -> None:
    job = tagged.submit("--gpus=1", "--deadline=now+61minutes", "-t60")
    tagged.finish(job)


def test_immediate_allocations_start_at_once(tagged: Tagged) -> None:
    for client, option in (("salloc", "-I"), ("salloc", "-I20"), ("srun", "--immediate"), ("srun", "-I20")):
        run = tagged.run(client, option, "--gpus=1", "true")
        assert run.returncode == 0, (client, option, run.stderr)
        wait_for(lambda: tagged.said("squeue", "-h") == "", "an empty queue")


@pytest.mark.parametrize(
    "words",
    [
        ("--img", "640"), ("-I",), ("-I20",), ("--deadline=3",), ("--deadzone=3",), ("-n", "2", "--immediate"),
        (":", "-n1", "--gpus=1", "true", "-I", "--deadline=3"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("client", ["srun", "salloc"])
def test_the_arguments_of_a_program_are_not_taken_for_the_client_s(
    tagged: Tagged, client: str, words: tuple[str, ...]
) -> None:
    tagged.settings(lease="1")
    look = ["sh", "-c", 'scontrol show job "$SLURM_JOB_ID"']
    assert "AdminComment=pal1{" in tagged.said(client, "-n", "1", "--gpus=1", *look, *words)


def test_the_options_of_each_component_of_a_het_job_are_seen(tagged: Tagged) -> None:
    plain, late = ("--gpus=1", "-t60"), ("--gpus=1", "--deadline=now+70minutes", "-t60")
    second = tagged.submit(*plain, ":", *late)
    assert tagged.mark(second) and tagged.field(second + 1, "AdminComment") == ""
    assert tagged.field(tagged.submit(*late, ":", *plain), "AdminComment") == ""


def test_a_job_in_a_reservation_is_left_alone(tagged: Tagged) -> None:
    tagged.said(
        *("scontrol", "create", "reservation", "ReservationName=maint", "StartTime=now", "Duration=60"),
        *("Users=root", "Nodes=n4", "Flags=IGNORE_JOBS"),
    )
    try:
        job = tagged.submit("--gpus=1", "--reservation=maint")
        tagged.finish(job)
    finally:
        tagged.run("scontrol", "delete", "reservation", "maint")


def test_components_of_a_het_job_and_tasks_of_an_array_share_one_lease(tagged: Tagged) -> None:
    het = tagged.submit("--gpus=1", ":", "--gpus=2")
    assert tagged.mark(het)["b"] == tagged.mark(het + 1)["b"]
    array = tagged.submit("--gpus=1", "--array=1-3")
    assert len(re.findall(r"AdminComment=pal1\{b=\d+", tagged.said("scontrol", "show", "job", str(array)))) == 1


def test_with_no_pald_the_lease_runs_out_and_the_job_runs(tagged: Tagged) -> None:
    tagged.settings(lease="2")
    jobs = [tagged.submit("--gpus=1"), tagged.submit("--gpus=1", ":", "--gpus=1"), tagged.submit("-N2", "--gres=gpu:4")]
    assert all(tagged.mark(job) for job in jobs)
    tagged.finish(*jobs)


def test_no_lease_while_pald_shows_no_sign_of_life(tagged: Tagged) -> None:
    alive, wake = tagged.cluster.dir / "run" / "alive", tagged.cluster.dir / "run" / "wake"
    wake.write_text("")
    tagged.settings(alive_file=str(alive), wake_file=str(wake))
    assert tagged.mark(tagged.submit("--gpus=1")) == {}
    alive.write_text(f"{int(time.time())}\n")
    assert tagged.mark(tagged.submit("--gpus=1"))
    alive.write_text(f"{int(time.time()) - 120}\n")
    assert tagged.mark(tagged.submit("--gpus=1")) == {}
    assert wake.read_text() == "."


def test_a_user_can_neither_write_a_mark_nor_be_kept_from_starting(tagged: Tagged) -> None:
    def as_user(*command: str) -> subprocess.CompletedProcess[str]:
        return tagged.cluster.run(*command, user="nobody")

    submitted = as_user("sbatch", "--parsable", "--chdir=/", "--output=/dev/null", "--gpus=1", "--wrap=true")
    assert submitted.returncode == 0, submitted.stderr
    job = int(submitted.stdout)
    mark = tagged.mark(job)
    assert mark
    assert as_user("scontrol", "update", f"JobId={job}", "AdminComment=pal1{b=1}").returncode != 0
    assert tagged.mark(job) == mark
    assert as_user("scontrol", "update", f"JobId={job}", "StartTime=now").returncode == 0
    tagged.finish(job)


# Models --------------------------------------------------------------------------------------------------------------

FORMS = [["--gres=gpu:v100:2"], ["--gpus=v100:2"], ["--gpus-per-node=v100:2"], ["-n2", "--gpus-per-task=v100:1"]]
FORMS += [["--gpus=v100:2", "-C", "rack1|a100"], ["--gres=gpu:v100:2", "-C", "rack1&v100"]]


@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_a_model_asked_for_as_a_type_is_a_feature_and_steps_still_work(tagged: Tagged, options: list[str]) -> None:
    tagged.settings(lease="1")
    script = 'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"\nsrun -n1 sh -c \'echo "$CUDA_VISIBLE_DEVICES"\'\n'
    first, second = tagged.output(*options, script=script).splitlines()
    node, devices = first.split()
    assert node in ("n3", "n4")
    assert len(devices.split(",")) == 2
    assert second


def test_a_model_per_socket_is_translated(tagged: Tagged) -> None:
    job = tagged.submit("--gpus-per-socket=v100:1", "--sockets-per-node=1", "--hold")
    assert "v100" not in tagged.mark(job)["s"]
    assert tagged.mark(job)["f"] == tagged.field(job, "Features") == "v100"


def test_only_known_models_are_translated(tagged: Tagged) -> None:
    run = tagged.run("sbatch", "--gres=gpu:h100:1", "--wrap=true")
    assert "Requested node configuration is not available" in run.stderr
    tagged.settings(models="a100")
    assert tagged.run("sbatch", "--gres=gpu:v100:1", "--wrap=true").returncode != 0


# Hostile and broken --------------------------------------------------------------------------------------------------

HOSTILE = [
    b"x\nJobId=1 JobName=forged AdminComment=pal1{b=1}",
    b"\xff\xfe\xc3",
    b"$(id) `id`",
    b"\x1b[31m",
    b"@group",
    b"pal1{b=1;n=gpu:9}",
    b"%s%n%1",
    b"app:" * 256,
    b"y" * 1013,
    b"y" * 1014,
    b"y" * 1024,
    b"'; DROP TABLE jobs; --",
]


@pytest.mark.parametrize("comment", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_comment_breaks_neither_the_submit_nor_the_mark(tagged: Tagged, comment: bytes) -> None:
    job = tagged.submit("--gpus=1", f"--comment={os.fsdecode(comment)}", "--pal-app=resnet")
    record = tagged.record(job)
    assert re.fullmatch(r"pal1\{b=\d+;j=gres[:/]gpu:1\}", str(record["admin_comment"]))
    fits = len(comment) <= 1024 - len(" app:resnet") or comment.startswith(b"app:")
    assert str(record["comment"]).endswith("app:resnet") == fits


def test_a_comment_that_slurm_itself_refuses_is_refused_as_without_us(tagged: Tagged) -> None:
    run = tagged.run("sbatch", "--gpus=1", "--comment=" + "y" * 60000, "--wrap=true")
    assert "too long" in run.stderr


def test_64_mb_in_one_field_cost_slurmctld_no_more_than_the_copy_that_it_makes_for_lua(tagged: Tagged) -> None:
    """Slurm copies a field for job_submit.lua when it is asked for; beyond that one copy there are 16 MB and 50 ms."""
    size, program = 64 << 20, tagged.cluster.dir / "tools" / "big_request"
    source = program.with_suffix(".c")
    source.write_text((PROJECT / "tests" / "slurm" / "big_request.c").read_text())
    tagged.said("gcc", "-o", str(program), str(source), "-lslurm")
    proc = Path("/proc") / str(tagged.cluster.pid("slurmctld"))
    idle = _spent(proc)[0] + (8 << 20)

    def cost(field: str) -> tuple[float, float]:
        """Bytes above what it had, seconds of processors; the least of three."""
        found = []
        for _ in range(3):
            wait_for(lambda: _spent(proc)[0] < idle, "slurmctld has done with the last message")
            (proc / "clear_refs").write_text("5")  # the peak is counted from here on
            before = _spent(proc)
            tagged.said(str(program), field, str(size))
            after = _spent(proc)
            found.append((after[1] - before[0], after[2] - before[2]))
        return min(b for b, _ in found), min(s for _, s in found)

    for field in ("tres_per_node", "comment", "script"):
        tagged.settings()
        memory, seconds = cost(field)
        tagged.settings(enabled="no")
        its_own, own_seconds = cost(field)
        print(f"{field}: {(memory - its_own) / 1e6:.0f} MB, {seconds - own_seconds:.2f} s more than without lua")
        assert memory - its_own < size + (16 << 20)
        assert seconds - own_seconds < 0.25  # 50 ms on a quiet machine; 12.8 s before texts were measured first


def _spent(proc: Path) -> tuple[int, int, float]:
    """Resident bytes, the most of them so far, seconds of processors."""
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    resident, peak = (int(status[key].split()[0]) << 10 for key in ("VmRSS", "VmHWM"))
    return resident, peak, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_error_inside_lua_costs_one_log_line_and_the_job_is_as_if_lua_were_not_there(tagged: Tagged) -> None:
    script = tagged.cluster.etc / "job_submit.lua"
    broken = SOURCE.replace(
        "\nreturn slurm.SUCCESS\n", "\npal.mark = function() error('boom') end\nreturn slurm.SUCCESS\n"
    )
    assert broken != SOURCE
    try:
        _replace(script, broken)
        lines = tagged.log().count("pal: a job is left alone")
        job = tagged.submit("--gpus=1", "--comment=mine", "--pal-app=resnet")
        assert tagged.comment(job) == "mine"
        assert tagged.field(job, "AdminComment") == ""
        tagged.finish(job)
        assert tagged.log().count("pal: a job is left alone") == lines + 1
    finally:
        _replace(script, SOURCE)


def test_a_mistake_in_the_settings_keeps_the_former_ones_and_is_told_once(tagged: Tagged) -> None:
    assert tagged.mark(tagged.submit("--gpus=1"))
    tagged.settings(lease="never")
    assert tagged.mark(tagged.submit("--gpus=1"))
    assert tagged.mark(tagged.submit("--gpus=1"))
    assert tagged.log().count("lease can't have this value; the former settings stay") == 1


def test_switched_off_it_does_nothing(tagged: Tagged) -> None:
    tagged.settings(enabled="no")
    job = tagged.submit("--gpus=1", "--pal-app=resnet", "--hold")
    assert tagged.field(job, "AdminComment") == tagged.comment(job) == ""


def _replace(script: Path, text: str) -> None:
    """slurmctld loads the script anew when its time, in whole seconds, is a later one."""
    former = script.stat().st_mtime
    script.write_text(text)
    later = int(former) + 1
    os.utime(script, (later, later))


@pytest.mark.slurm("22.05", "26.05")
def test_a_qos_that_may_preempt_gets_no_lease(make_minicluster: Callable[..., Minicluster]) -> None:
    tagged = Tagged(make_minicluster("--nodes", "1", "--dbd"))
    tagged.settings(preempt_qos="urgent")
    tagged.said("sacctmgr", "-i", "add", "qos", "urgent")
    tagged.said("sacctmgr", "-i", "add", "account", "lab")
    tagged.said("sacctmgr", "-i", "add", "user", "root", "account=lab", "qos=normal,urgent", "defaultqos=normal")
    assert tagged.mark(tagged.submit("--gpus=1", "-A", "lab"))
    assert tagged.mark(tagged.submit("--gpus=1", "-A", "lab", "--qos=urgent")) == {}
    tagged.said("sacctmgr", "-i", "modify", "user", "root", "where", "account=lab", "set", "defaultqos=urgent")
    wait_for(lambda: not tagged.mark(tagged.submit("--gpus=1", "-A", "lab")), "the default QOS counts")
