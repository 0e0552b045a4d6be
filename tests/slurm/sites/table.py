"""Sites: lines of slurm.conf that sites set, and the jobs that are tried there. Out: `SITES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Crowd:
    """More jobs of one kind than there is room for, behind some that run already."""

    name: str
    options: str
    count: int = 40
    first: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Site:
    name: str
    options: tuple[str, ...] = ()  # of `minicluster up`
    rows: tuple[str, ...] = ()
    crowds: tuple[Crowd, ...] = ()
    releases: tuple[str, ...] = ("22.05", "24.11", "26.05")
    pal: Mapping[str, object] = field(default_factory=dict)


ROWS = (
    "--gres=gpu:1",
    "--gpus=3",
    "-N2 --gres=gpu:2",
    "-N2 -n2 --gpus=4",
    "--gpus=2 --cpus-per-gpu=3",
    "--gres=gpu:2 -n2 -c3 -N1",
    "--gres=gpu:1 --exclusive",
    "--array=0-2 --gres=gpu:1",
    "--gpus=2 --mem-per-gpu=3000",
    "-n3 -N1 --gpus-per-task=1",
    "--gres=gpu:1 -n3 -N1 --threads-per-core=1",
    "--gres=gpu:1 --oversubscribe -n5 -N1",
    "-n4 -c4 -N1",
)
SPLIT = ("-N2 -n2 --gpus=4",)
ONES = Crowd("1 GPU beside CPU jobs", "--gres=gpu:1 -c2", 40, ((8, "-N1 -n9 --mem=1000"),))
TWOS = Crowd("2 nodes", "-N2 -n6 --ntasks-per-node=3 --gres=gpu:2", 12)
FULL = Crowd("1 GPU where no CPU is free", "--gres=gpu:1", 16, ((10, "-N1 -n32 --mem=1000"),))
MEMORY = Crowd("1 GPU with a third of a node's memory", "--gres=gpu:1 --mem=40000", 40)
CORES = Crowd("1 GPU and 7 cores", "--gres=gpu:1 -n7 -N1 --threads-per-core=1", 40, ((8, "-N1 -n3 --mem=1000"),))
TOTAL = Crowd("6 GPUs on 2 nodes", "-N2 -n2 --gpus=6", 12)
NEAR = Crowd(
    "2 GPUs bound to their cores", "--gres=gpu:1 -c4 --gres-flags=enforce-binding", 24, ((8, "-N1 -n12 --mem=1000"),)
)
CROWDS = (ONES, TWOS, FULL, MEMORY, CORES, NEAR)


def _set(*lines: str) -> tuple[str, ...]:
    return tuple(f"--set={line}" for line in lines)


def _part(*words: str) -> tuple[str, ...]:
    return tuple(f"--partition={word}" for word in words)


def _node(*words: str) -> tuple[str, ...]:
    return tuple(f"--node={word}" for word in words)


def _sched(*words: str) -> tuple[str, ...]:
    ours = "disable_job_shrink,batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue"
    return _set(f"SchedulerParameters={','.join((ours, *words))}")


OPTIONS: dict[str, tuple[str, ...]] = {
    "usual": (),
    "MaxCPUsPerNode": _part("MaxCPUsPerNode=12"),
    "MaxCPUsPerSocket": _part("MaxCPUsPerSocket=8"),
    "MaxMemPerNode": _part("MaxMemPerNode=50000"),
    "MaxMemPerCPU": _part("MaxMemPerCPU=1000"),
    "DefCpuPerGPU": _part("DefCpuPerGPU=3"),
    "DefMemPerGPU": (*_part("DefMemPerGPU=5000"),),
    "both": (*_part("DefCpuPerGPU=3", "DefMemPerGPU=5000"),),
    "global DefCpuPerGPU": _set("DefCpuPerGPU=3"),
    "DefMemPerNode": (*_set("DefMemPerCPU=0"), *_part("DefMemPerNode=30000")),
    "LLN": _part("LLN=YES"),
    "part CR_Socket": _part("SelectTypeParameters=CR_Socket"),
    "FORCE:1": _part("OverSubscribe=FORCE:1"),
    "FORCE:4": _part("OverSubscribe=FORCE:4"),
    "YES:4": _part("OverSubscribe=YES:4"),
    "EXCLUSIVE": _part("OverSubscribe=EXCLUSIVE"),
    "GANG": (*_set("PreemptMode=GANG", "SchedulerTimeSlice=5"), *_part("OverSubscribe=FORCE:2")),
    "CR_CPU": _set("SelectTypeParameters=CR_CPU"),
    "CR_CPU_Memory": _set("SelectTypeParameters=CR_CPU_Memory"),
    "CR_Socket": _set("SelectTypeParameters=CR_Socket"),
    "CR_Socket_Memory": _set("SelectTypeParameters=CR_Socket_Memory"),
    "CR_Core": _set("SelectTypeParameters=CR_Core"),
    "CR_ONE_TASK_PER_CORE": (
        *_set("SelectTypeParameters=CR_Core_Memory,CR_ONE_TASK_PER_CORE"),
        *_node("CoresPerSocket=8", "ThreadsPerCore=2"),
    ),
    "CR_Pack_Nodes": _set("SelectTypeParameters=CR_Core_Memory,CR_Pack_Nodes"),
    "CR_LLN": _set("SelectTypeParameters=CR_Core_Memory,CR_LLN"),
    "CR_CORE_DEFAULT_DIST_BLOCK": _set("SelectTypeParameters=CR_Core_Memory,CR_CORE_DEFAULT_DIST_BLOCK"),
    "threads": _node("CoresPerSocket=8", "ThreadsPerCore=2"),
    "threads CR_CPU": (*_set("SelectTypeParameters=CR_CPU_Memory"), *_node("CoresPerSocket=8", "ThreadsPerCore=2")),
    "CoreSpecCount": _node("CoreSpecCount=2", "MemSpecLimit=8000"),
    "near": ("--near",),
    "near threads": ("--near", *_node("CoresPerSocket=8", "ThreadsPerCore=2")),
    "near ENFORCE": ("--near", *_set("SelectTypeParameters=CR_Core_Memory,ENFORCE_BINDING_GRES")),
    "ONE_TASK_PER_SHARING": _set(
        "SelectTypeParameters=CR_Core_Memory,ONE_TASK_PER_SHARING_GRES,MULTIPLE_SHARING_GRES_PJ"
    ),
    "odd sched": _sched(
        "pack_serial_at_end", "bf_busy_nodes", "bf_one_resv_per_job", "enable_user_top", "nohold_on_prolog_fail"
    ),
    "short queue": _sched("default_queue_depth=2", "partition_job_depth=2", "bf_max_job_test=2"),
    "bf_max_job_user": _sched("bf_max_job_user=1", "bf_max_job_start=1"),
    "mcs": _set(
        "MCSPlugin=mcs/user",
        "MCSParameters=enforced,select,privatedata",
        "PrivateData=jobs,nodes,partitions,reservations,usage,users,accounts",
    ),
    "mcs ondemand": _set("MCSPlugin=mcs/user", "MCSParameters=ondemand,ondemandselect"),
    "all_partitions": ("--partitions=left=n[1-4],right=n[5-8]", *_set("JobSubmitPlugins=all_partitions,lua")),
    "lua,all_partitions": ("--partitions=left=n[1-4],right=n[5-8]", *_set("JobSubmitPlugins=lua,all_partitions")),
    "require_timelimit": _set("JobSubmitPlugins=lua,require_timelimit"),
    "EnforcePartLimits": (*_set("EnforcePartLimits=ALL"), *_part("MaxNodes=2")),
    "topology/default": _set("TopologyPlugin=topology/default"),
    "topology/flat": _set("TopologyPlugin=topology/flat"),
    "topology/block": (*_set("TopologyPlugin=topology/block"), "--rack-size=4"),
    "tree racks": ("--rack-size=4",),
    "ExclusiveUser": _part("ExclusiveUser=YES"),
    "ExclusiveTopo": (*_set("TopologyPlugin=topology/block"), "--rack-size=4", *_part("ExclusiveTopo=YES")),
    "linear": _set("SelectType=select/linear", "SelectTypeParameters=CR_Memory"),
}
SITES = {name: Site(name, options, ROWS, CROWDS) for name, options in OPTIONS.items()}
