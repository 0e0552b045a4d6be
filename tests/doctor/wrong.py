"""Sites that are wrong in one way each. In: a right Tree. Out: the same with one thing wrong, and who has to say so."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from tests.doctor.tree import PROJECT, RUNNING, Tree


@dataclass(frozen=True)
class Wrong:
    what: str
    check: str
    said: str  # within what is said
    make: Callable[[Tree], object]


def _changed(path: str, old: str, new: str) -> Callable[[Tree], object]:
    return lambda tree: tree.change(path, old, new)


def _gone(path: str) -> Callable[[Tree], object]:
    return lambda tree: tree.remove(path)


def _both(*steps: Callable[[Tree], object]) -> Callable[[Tree], object]:
    def make(tree: Tree) -> None:
        for step in steps:
            step(tree)

    return make


def _mode(path: str, mode: int) -> Callable[[Tree], object]:
    return lambda tree: (tree.root / path).chmod(mode)


def _older_database(tree: Tree) -> None:
    with sqlite3.connect(tree.root / "var/lib/pal-slurm/pal.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = '0003'")
    database.close()


def _spool(mode: int) -> Callable[[Tree], object]:
    def make(tree: Tree) -> None:
        tree.change(YAML, "actuator: pin\n", "actuator: pin\nprofile: {spool: /shared/pal-slurm/spool}\n")
        (tree.root / "shared/pal-slurm/spool").mkdir(parents=True)
        (tree.root / "shared/pal-slurm/spool").chmod(mode)

    return make


def _page_enabled(tree: Tree) -> None:
    tree.enable("multi-user", "pal-page.service")


def _untyped_rest(tree: Tree) -> None:
    lines = "NodeName=n[1-3] Gres=gpu:g0:1,gpu:g1:1 Feature=a100\nNodeName=n4 Gres=gpu:2 Feature=a100"
    tree.change("etc/slurm/nodes.conf", "NodeName=n[1-4] Gres=gpu:g0:1,gpu:g1:1 Feature=a100", lines)


def sharing_site(*wrong: Callable[[Tree], object]) -> Callable[[Tree], object]:
    """A site whose jobs share GPUs, with all that this needs; then one thing wrong."""
    return _both(
        lambda t: t.change(CONF, "GresTypes=gpu\n", "GresTypes=gpu,shard\nTaskProlog=/etc/slurm/pal_task_prolog\n"),
        lambda t: t.change(CONF, "AccountingStorageTRES=gres/gpu", "AccountingStorageTRES=gres/gpu,gres/shard"),
        lambda t: t.change("etc/slurm/nodes.conf", "gpu:g1:1 ", "gpu:g1:1,shard:4 "),
        lambda t: t.change(
            "etc/slurm/nodes.conf", "Nodes=n[1-4]", "Nodes=n[1-4] TRESBillingWeights=GRES/gpu=1,GRES/shard=0.5"
        ),
        lambda t: t.write("etc/slurm/pal_task_prolog", (PROJECT / "spank" / "pal_task_prolog").read_text()),
        lambda t: t.write(LUA, (t.root / LUA).read_text() + "shards = pald\n"),
        lambda t: t.change(YAML, "actuator: pin\n", "actuator: pin\nsharing: {enabled: true}\n"),
        lambda t: t.answer("scontrol", SHARING),
        *wrong,
    )


SHARING = RUNNING.replace("= gpu\n", "= gpu,shard\n")
LEAKED = (
    "NodeName=n1 GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:0(IDX:N/A),shard:g0:0(0/2),shard:g1:0(0/2) State=IDLE\n"
    "NodeName=n2 GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:0(IDX:N/A),shard:g0:1(1/2),shard:g1:0(0/2) State=IDLE\n"
    "NodeName=n3 GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:0(IDX:N/A),shard:g0:1(1/2),shard:g1:0(0/2) State=MIXED\n"
)
CONF, GRES, LUA = "etc/slurm/slurm.conf", "etc/slurm/gres.conf", "etc/slurm/pal_lua.conf"
YAML, UNITS = "etc/pal-slurm/pal.yaml", "usr/lib/systemd/system"
WRONG = (
    Wrong("slurmctld does not answer", "Slurm", "Unable to contact",
          lambda t: t.answer("scontrol", "", 1, "Unable to contact slurm controller")),
    Wrong("Slurm 21.08", "Slurm", "too old", lambda t: t.answer("scontrol", RUNNING.replace("25.11.2", "21.08.8"))),
    Wrong("`disable_job_shrink` is missing", "slurm.conf", "refuses to pin",
          _changed(CONF, "bf_continue,disable_job_shrink", "bf_continue")),
    Wrong("SchedulerParameters twice, the last without it", "slurm.conf", "stands 2 times",
          _changed(CONF, "PriorityType=", "SchedulerParameters=bf_interval=60\nPriorityType=")),
    Wrong("jobs gather no age while leased", "slurm.conf", "gather no age",
          _changed(CONF, "PriorityFlags=ACCRUE_ALWAYS\n", "")),
    Wrong("no `JobSubmitPlugins=lua`", "slurm.conf", "no job gets a lease",
          _changed(CONF, "JobSubmitPlugins=lua", "JobSubmitPlugins=require_timelimit")),
    Wrong("no `GresTypes=gpu`", "slurm.conf", "knows no GPUs", _changed(CONF, "GresTypes=gpu", "GresTypes=mps")),
    Wrong("`select/linear`", "slurm.conf", "single GPUs", _changed(CONF, "select/cons_tres", "select/linear")),
    Wrong("cloud nodes on 22.05", "slurm.conf", "hides cloud nodes",
          _both(_changed("etc/slurm/nodes.conf", "PartitionName=", "NodeName=c1 State=CLOUD\nPartitionName="),
                lambda t: t.answer("scontrol", RUNNING.replace("25.11.2", "22.05.8")))),
    Wrong("written, and never reconfigured", "slurm.conf", "the running slurmctld does not",
          lambda t: t.answer("scontrol", RUNNING.replace(",disable_job_shrink", ""))),
    Wrong("an included file is missing", "slurm.conf", "includes",
          _changed(CONF, "Include nodes.conf", "Include nodes.conf\nInclude more.conf")),
    Wrong("no gres.conf", "gres.conf", "no gres.conf", _gone(GRES)),
    Wrong("a GPU line without `File=`", "gres.conf", "line 3", _changed(GRES, " File=/dev/nvidia1", "")),
    Wrong("one device twice", "gres.conf", "two lines of one node", _changed(GRES, "nvidia1", "nvidia0")),
    Wrong("links of a device to another number of devices", "gres.conf", "3 numbers for 2 devices",
          _changed(GRES, "nvidia0", "nvidia0 Links=-1,4,0")),
    Wrong("a device less than slurm.conf says", "gres.conf", "2 GPUs, gres.conf names 1",
          _changed(GRES, "NodeName=n[1-4] Name=gpu Type=g1 File=/dev/nvidia1\n", "")),
    Wrong("slots on some nodes only", "gres.conf", "some nodes have slots", _untyped_rest),
    Wrong("slots out of order", "gres.conf", "in order",
          _changed("etc/slurm/nodes.conf", "gpu:g0:1,gpu:g1:1", "gpu:g1:1,gpu:g0:1")),
    Wrong("AutoDetect beside slots", "gres.conf", "clash", _changed(GRES, "AutoDetect=off", "AutoDetect=nvml")),
    Wrong("limits on `gres/gpu:a100` with slots", "gres.conf", "find nothing",
          _changed(CONF, "AccountingStorageTRES=gres/gpu", "AccountingStorageTRES=gres/gpu,gres/gpu:a100")),
    Wrong("topology/tree without topology.conf", "topology", "no topology.conf", _gone("etc/slurm/topology.conf")),
    Wrong("a node in no switch", "topology", "in no switch",
          _changed("etc/slurm/topology.conf", "n[3-4]", "n3")),
    Wrong("no job_submit.lua", "lua", "no job_submit.lua", _gone("etc/slurm/job_submit.lua")),
    Wrong("the site's own job_submit.lua", "lua", "site's own",
          lambda t: t.write("etc/slurm/job_submit.lua", "function slurm_job_submit(j, p, u) return 0 end\n")),
    Wrong("job_submit.lua cut off", "lua", "is no Lua",
          lambda t: t.write("etc/slurm/job_submit.lua",
                            (t.root / "etc/slurm/job_submit.lua").read_text().partition("local undo")[0])),
    Wrong("a Slurm built without Lua", "lua", "built without Lua", _gone("usr/lib64/slurm/job_submit_lua.so")),
    Wrong("no pal_lua.conf", "pal_lua.conf", "no pal_lua.conf", _gone(LUA)),
    Wrong("a word in pal_lua.conf that lua refuses", "pal_lua.conf", "lease can't be '1h'",
          _changed(LUA, "slots = yes", "lease = 1h\nslots = yes")),
    Wrong("lua and pald watch different files", "pal_lua.conf", "never meet",
          _changed(LUA, "/run/pal-slurm/alive", "/run/pald/alive")),
    Wrong("`slots = no` on nodes with slots", "pal_lua.conf", "have slot types",
          _changed(LUA, "slots = yes", "slots = no")),
    Wrong("models that pal.yaml does not know", "pal_lua.conf", "models are", _changed(LUA, "a100", "a100,h100")),
    Wrong("`required pal.so`", "plugstack", "required",
          _changed("etc/slurm/plugstack.conf.d/pal.conf", "optional", "required")),
    Wrong("pal.so not built", "plugstack", "is not there", _gone("usr/lib64/slurm/pal.so")),
    Wrong("leases for a partition that Slurm has not", "partitions", "gpus is no partition",
          lambda t: t.write(LUA, (t.root / LUA).read_text() + "partitions = gpus\n")),
    Wrong("a canary in a partition that Slurm has not", "partitions", "gpu-test is no partition",
          _changed(YAML, "actuator: pin\n", "actuator: pin\ncanary: {partitions: [gpu, gpu-test]}\n")),
    Wrong("munged not running", "munge", "no credential",
          lambda t: t.answer("munge", "", 6, "munge: Error: Failed to access socket")),
    Wrong("munge's key readable by all", "munge", "could be anybody", _mode("etc/munge/munge.key", 0o644)),
    Wrong("slurmctld's clock 90 s ahead", "clocks", "ahead", lambda t: t.clock_ahead(90)),
    Wrong("no user pal", "rights", "no user pal",
          lambda t: t.write("etc/passwd", "root:x:0:0::/:/bin/sh\nslurm:x:64030:64030::/:/bin/sh\n")),
    Wrong("pal is no operator", "rights", "edit nobody else's", lambda t: t.answer("sacctmgr", "pal|None\n")),
    Wrong("no slurmdbd, so no operators", "rights", "without slurmdbd",
          _changed(CONF, "accounting_storage/slurmdbd", "accounting_storage/none")),
    Wrong("slurm is not in group pal", "rights", "ring pald's bell",
          _changed("etc/group", "pal:x:990:slurm", "pal:x:990:")),
    Wrong("no pal.yaml", "pal.yaml", "not there",
          _both(_gone(YAML), _changed(LUA, "models = a100\n", ""))),
    Wrong("a slip in pal.yaml", "pal.yaml", "line 3: lese",
          _changed(YAML, "actuator: pin\n", "actuator: pin\n# ours\nlese: {length_s: 30}\n")),
    Wrong("a tab in pal.yaml", "pal.yaml", "line 2: not YAML", _both(
          _changed(YAML, "actuator: pin\n", "lease:\n\tlength_s: 30\n"), _changed(LUA, "models = a100\n", ""))),
    Wrong("pal.yaml that all may write", "pal.yaml", "written by everybody",
          _both(_mode(YAML, 0o666), _changed(LUA, "models = a100\n", ""))),
    Wrong("pal.yaml that pald may not read", "pal.yaml", "can't be read", _mode(YAML, 0o040)),
    Wrong("`cluster.bin_dir` without scontrol", "pal.yaml", "no scontrol",
          _changed(YAML, "cluster: {", "cluster: {bin_dir: /opt/slurm/bin, ")),
    Wrong("jobs share, and there is no TaskProlog", "sharing", "no TaskProlog",
          sharing_site(_changed(CONF, "TaskProlog=/etc/slurm/pal_task_prolog\n", ""))),
    Wrong("a TaskProlog that is not there", "sharing", "every task fails",
          sharing_site(_gone("etc/slurm/pal_task_prolog"))),
    Wrong("a TaskProlog of the site's own", "sharing", "does not call pal's",
          sharing_site(lambda t: t.write("etc/slurm/pal_task_prolog", "#!/bin/sh\necho export A=1\n"))),
    Wrong("jobs share, and no node has shards", "sharing", "no node has shards",
          sharing_site(_changed("etc/slurm/nodes.conf", ",shard:4", ""))),
    Wrong("users ask for shards where pald gives them out", "sharing", "pald lets nobody share",
          sharing_site(_changed(LUA, "shards = pald", "shards = users"))),
    Wrong("GPUs are billed, and shards are not", "sharing", "who shares pays nothing",
          sharing_site(_changed("etc/slurm/nodes.conf", ",GRES/shard=0.5", ""))),
    Wrong("a shard is billed at less than half of a GPU", "sharing", "shards at less than half of one",
          sharing_site(_changed("etc/slurm/nodes.conf", "GRES/shard=0.5", "GRES/shard=0.25"))),
    Wrong("jobs share on Slurm 22.05", "sharing", "can't turn a waiting job",
          sharing_site(lambda t: t.answer("scontrol", SHARING.replace("25.11.2", "22.05.8")))),
    Wrong("Slurm lost a shard", "sharing", "n2: no job is there",
          sharing_site(lambda t: t.answer("scontrol", SHARING + LEAKED))),
    Wrong("no state directory", "database", "not there", _gone("var/lib/pal-slurm")),
    Wrong("a database of an older release", "database", "has schema", _older_database),
    Wrong("no file with the database's URL", "database", "can't be read",
          _changed(YAML, "actuator: pin\n", "actuator: pin\ndatabase: {url_file: /nowhere/pal.url}\n")),
    Wrong("a database without its driver", "database", "driver",
          lambda t: t.write(YAML, "actuator: pin\ncluster: {models: [a100]}\ndatabase: {url: 'mysql+MySQLdb://db/pal'}\n")),
    Wrong("pald.service is not installed", "units", "no pald.service", _gone(f"{UNITS}/pald.service")),
    Wrong("a unit that starts another path", "units", "not there",
          _changed(f"{UNITS}/pald.service", "ExecStart=/usr/bin/pald", "ExecStart=/opt/old/bin/pald")),
    Wrong("pald is not enabled", "units", "does not start",
          _gone("etc/systemd/system/multi-user.target.wants/pald.service")),
    Wrong("no dead man's timer while pins are made", "units", "dead man's timer",
          _gone("etc/systemd/system/timers.target.wants/pal-deadman.timer")),
    Wrong("a spool outside of the sandbox", "units", "write no file",
          _both(_changed(YAML, "actuator: pin\n", "actuator: pin\nprofile: {spool: /gpfs/pal}\n"),
                lambda t: (t.root / "gpfs/pal").mkdir(parents=True))),
    Wrong("a spool that everybody may write", "units", "everybody may write profile.spool", _spool(0o1777)),
    Wrong("a spool in which users may remove each other's files", "units", "remove each other's files", _spool(0o2770)),
    Wrong("a spool that is not there", "units", "is not there",
          _changed(YAML, "actuator: pin\n", "actuator: pin\nprofile: {spool: /shared/pal-slurm/spool}\n")),
    Wrong("no /run/pal-slurm", "units", "can't tell job_submit.lua", _gone("run/pal-slurm")),
    Wrong("no sign of life that pald could write", "units", "no plain file", _gone("run/pal-slurm/alive")),
    Wrong("pald may replace what slurmctld opens", "units", "can replace what slurmctld opens",
          lambda t: (t.root / "run/pal-slurm").chmod(0o777)),
    Wrong("figures on the exporters' port", "figures", "9341",
          _changed(YAML, "actuator: pin\n", "actuator: pin\nmetrics: {listen: '127.0.0.1:9341'}\n")),
    Wrong("the page's user may not read what it shows", "page", "neither pal.yaml nor the database",
          _both(_page_enabled, _changed("etc/passwd", "pal:x:", "pal-page:x:991:991::/:\npal:x:"))),
    Wrong("the page shows all jobs to all hosts", "page", "sees whose each job is",
          _both(_page_enabled, _changed("etc/passwd", "pal:x:", "pal-page:x:991:990::/:\npal:x:"),
                _changed(YAML, "actuator: pin\n", "actuator: pin\npage: {listen: '0.0.0.0:9753', privacy: open}\n"))),
)  # fmt: skip
