"""Slurm's configuration files: Spec, ports, paths -> text. docs/minicluster.md says why each setting is as it is."""

from . import backup, hollow
from .layout import Layout
from .pal import TASK_PROLOG
from .ports import Ports
from .spec import Spec

CPUS_PER_GPU = 8
# A file of pal-slurm's -> the line that makes Slurm read it.
_LUA = {"job_submit.lua": "JobSubmitPlugins=lua", "cli_filter.lua": "CliFilterPlugins=cli_filter/lua"}
_QUICK = "batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_continue"


def _gres(spec: Spec, node: int) -> str:
    gpus = f"gpu:{spec.gpus}"
    if spec.gres == "slots":
        gpus = ",".join(f"gpu:{slot}:1" for slot in spec.slots)
    elif spec.gres == "typed":
        gpus = f"gpu:{spec.model_of(node)}:{spec.gpus}"
    return f"{gpus},shard:{spec.shards * spec.gpus}" if spec.shards else gpus


def _shared(spec: Spec, layout: Layout) -> list[str]:
    """GPUs, and where they have parts what lets steps use these."""
    if not spec.shards:
        return ["GresTypes=gpu"]
    prolog = layout.etc / TASK_PROLOG
    return ["GresTypes=gpu,shard", *([f"TaskProlog={prolog}"] if prolog.exists() else [])]


def _cores(spec: Spec) -> int:
    """Of a socket."""
    return max(4, CPUS_PER_GPU * spec.gpus // 2)


def _words(keys: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in keys.items())


def _node_lines(spec: Spec, ports: Ports) -> list[str]:
    cores = _cores(spec)
    shape = {"Sockets": "2", "CoresPerSocket": f"{cores}", "ThreadsPerCore": "1", "RealMemory": f"{8000 * cores}"}
    lines = [f"NodeName=DEFAULT {_words({**shape, **spec.node})} State=UNKNOWN"]
    for i, name in enumerate(spec.node_names, 1):
        gres = f" Gres={_gres(spec, i)}" if spec.gpus else ""
        lines.append(
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports.slurmd(i)}{gres} "
            f"Features={spec.model_of(i)},{spec.rack_of(i)}"
        )
    return lines + hollow.node_lines(spec, ports, f" Gres={_gres(spec, 1)}" if spec.gpus else "")


def _accounting(spec: Spec, ports: Ports, layout: Layout) -> list[str]:
    if not spec.dbd:
        return ["PriorityType=priority/basic"]
    return [
        "PriorityType=priority/multifactor",
        "PriorityWeightAge=1000",
        "PriorityWeightFairshare=1000",
        "PriorityWeightQOS=10000",
        "PriorityMaxAge=1-0",
        f"AccountingStorageTRES=gres/gpu{',gres/shard' if spec.shards else ''}",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={ports.slurmdbd}",
        f"AccountingStoragePass={layout.munge_socket}",
        "AccountingStoreFlags=job_comment",
    ]


def slurm_conf(spec: Spec, ports: Ports, layout: Layout) -> str:
    """The same text is accepted by 22.05, 24.11 and 26.05."""
    scheduler = "disable_job_shrink" + ("" if spec.stock_scheduling else "," + _QUICK)
    lines = [
        f"ClusterName=pal-{spec.name.replace('.', '-')}".lower(),
        *backup.control_hosts(spec),
        f"SlurmctldPort={ports.slurmctld}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
        f"StateSaveLocation={layout.spool}/slurmctld",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmctldPidFile={backup.pid_file(spec, layout)}",
        f"SlurmdPidFile={layout.run}/slurmd.%n.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdLogFile={layout.log}/slurmd.%n.log",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/pgid",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "ReturnToService=2",
        "KillWait=3",
        "PropagateResourceLimits=NONE",
        "MaxJobCount=20000",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=100",
        "TopologyPlugin=topology/tree",
        "SchedulerType=sched/backfill",
        f"SchedulerParameters={scheduler}",
        "PriorityFlags=ACCRUE_ALWAYS",
        f"PlugStackConfig={layout.etc}/plugstack.conf",
        *_shared(spec, layout),
        *_accounting(spec, ports, layout),
        *(line for file, line in _LUA.items() if (layout.etc / file).exists()),
    ]
    settings = {**(hollow.SETTINGS if spec.hollow else {}), **spec.settings}
    lines += [f"{key}={value}" for key, value in settings.items()]
    taken = {key.lower() for key in settings}
    first = len(lines) - len(settings)
    lines = [line for i, line in enumerate(lines) if i >= first or line.partition("=")[0].lower() not in taken]
    lines += _node_lines(spec, ports)
    default = {"MaxTime": "UNLIMITED", "DefaultTime": "01:00:00", "State": "UP", **spec.partition}
    lines.append(f"PartitionName=DEFAULT {_words(default)}")
    lines.append(f"PartitionName=gpu Nodes=n[1-{spec.nodes}]{hollow.nodes(spec)} Default=YES")
    lines += [f"PartitionName={name} Nodes={nodes}" for name, nodes in spec.partitions.items()]
    return "\n".join(lines) + "\n"


def gres_conf(spec: Spec, layout: Layout) -> str:
    """Every node shares the same device files: nobody opens them."""
    nodes = f"n[1-{spec.nodes}]{hollow.nodes(spec)}"
    lines = ["AutoDetect=off"] if spec.gpus else []
    if spec.gres == "slots":
        lines += [
            f"NodeName={nodes} Name=gpu Type=g{i} File={layout.dev}/gpu{i}{_near(spec, i)}" for i in range(spec.gpus)
        ]
    elif spec.gpus:
        for i, name in enumerate(spec.node_names, 1):
            model = f" Type={spec.model_of(i)}" if spec.gres == "typed" else ""
            some = name + hollow.nodes(spec) if i == 1 else name
            lines.append(f"NodeName={some} Name=gpu{model} File={layout.dev}/gpu[0-{spec.gpus - 1}]")
    return "\n".join(lines) + "\n"


def _near(spec: Spec, gpu: int) -> str:
    """The cores of the socket that a GPU is near."""
    cores = int(spec.node.get("CoresPerSocket", _cores(spec)))
    first = cores * (2 * gpu // spec.gpus)
    return f" Cores={first}-{first + cores - 1}" if spec.near else ""


def topology_conf(spec: Spec) -> str:
    racks: dict[str, list[int]] = {}
    for i in range(1, spec.nodes + 1):
        racks.setdefault(spec.rack_of(i), []).append(i)
    if spec.settings.get("TopologyPlugin", "").endswith("block"):
        blocks = [f"BlockName={rack} Nodes=n[{members[0]}-{members[-1]}]" for rack, members in racks.items()]
        return "\n".join([*blocks, f"BlockSizes={spec.rack_size}"]) + "\n"
    lines = [f"SwitchName={rack} Nodes=n[{members[0]}-{members[-1]}]" for rack, members in racks.items()]
    hollow_racks = hollow.racks(spec)
    lines += [f"SwitchName={rack} Nodes={nodes}" for rack, nodes in hollow_racks.items()]
    beside = f",hrack[1-{len(hollow_racks)}]" if hollow_racks else ""
    lines.append(f"SwitchName=spine Switches=rack[1-{len(racks)}]{beside}")
    return "\n".join(lines) + "\n"


def slurmdbd_conf(ports: Ports, layout: Layout, password: str) -> str:
    return (
        "\n".join(
            [
                "AuthType=auth/munge",
                f"AuthInfo=socket={layout.munge_socket}",
                "DbdHost=localhost",
                "DbdAddr=127.0.0.1",
                f"DbdPort={ports.slurmdbd}",
                "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
                "SlurmUser=root",
                f"LogFile={layout.log}/slurmdbd.log",
                f"PidFile={layout.run}/slurmdbd.pid",
                "StorageType=accounting_storage/mysql",
                "StorageHost=127.0.0.1",
                f"StoragePort={ports.mariadb}",
                "StorageUser=slurm",
                f"StoragePass={password}",
                "StorageLoc=slurm_acct_db",
            ]
        )
        + "\n"
    )
