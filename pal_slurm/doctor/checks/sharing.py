"""Two jobs on one GPU. In: a Site. Out: advice: what jobs that share lack, parts of GPUs that Slurm has lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.checks.lua import sample
from pal_slurm.doctor.checks.pal_lua import set_in
from pal_slurm.doctor.checks.scheduling import RECONFIGURE, RESTART
from pal_slurm.doctor.site import Site
from pal_slurm.doctor.slurm_conf import SlurmConf
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.devices import SHARED
from pal_slurm.slurm.gres import items_in
from pal_slurm.slurm.nodeset import fold

STEP = 75
TITLE = "sharing"
OURS = "slurm.conf's TaskProlog where jobs share GPUs"


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        return
    said = [*_lost(site, conf), *_prolog(site, conf)]
    if site.pal.sharing.enabled:
        said += [*_release(site), *_shards(conf), *_whose(site), *_billed(conf)]
    yield from said or [
        ok("jobs that say pal:share may" if site.pal.sharing.enabled else "no two jobs are put on one GPU")
    ]


def _release(site: Site) -> Iterator[Advice]:
    release = (site.running or {}).get("SLURM_VERSION", "")
    if release and not capabilities_of(release).parts:
        yield mend(f"Slurm {release} can't turn a waiting job's GPU to a part of one: pald lets nobody share",
                   "sharing: {enabled: false}    # or Slurm 23.11.5", site.pal_yaml)  # fmt: skip


def _shards(conf: SlurmConf) -> Iterator[Advice]:
    having = [node for node in conf.nodes if any(item.n for item in items_in(node.gres, ("shard",)))]
    if not having or not conf.has("GresTypes", "shard"):
        yield mend("no node has shards, the parts of GPUs that jobs could share",
                   "GresTypes=gpu,shard; and ,shard:8 behind the GPUs in Gres= of nodes with four", conf.file,
                   f"{RESTART}, all slurmd, and slurmctld once more")  # fmt: skip


def _prolog(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    """Also where nobody shares: one that is not there fails every task."""
    found, ours = conf.get("TaskProlog"), sample(site, "pal_task_prolog")
    if found is None:
        if site.pal.sharing.enabled:
            yield mend(
                "no TaskProlog: steps of jobs that share a GPU fail", f"TaskProlog={ours}", conf.file, RECONFIGURE
            )
        return
    text = site.text(found.value) if found.value.startswith("/") else None
    if text is None:
        if found.value.endswith("pal_task_prolog"):
            yield mend(f"TaskProlog {found.value} can't be read here; on a node that lacks it every task fails",
                       f"cp {ours} {found.value}", f"{found.place}, and each node", RECONFIGURE)  # fmt: skip
    elif site.pal.sharing.enabled and OURS not in text and "pal_task_prolog" not in text:
        yield mend(f"TaskProlog {found.value} is the site's own and does not call pal's: steps of jobs that share fail",
                   ours, f"{found.value}, as its last line")  # fmt: skip


def _whose(site: Site) -> Iterator[Advice]:
    if site.pal_lua is not None and site.pal_lua.get("shards") != "pald":
        path = site.beside("pal_lua.conf")
        yield mend("users may ask for shards themselves, strangers beside others: so pald lets nobody share",
                   "shards = pald", path, fix=set_in(site, path, "shards", "pald"))  # fmt: skip


def _billed(conf: SlurmConf) -> Iterator[Advice]:
    """Where GPUs cost something, a part of one should too."""
    for name, keys in conf.partitions.items():
        weights = dict(pair.lower().partition("=")[::2] for pair in keys.get("tresbillingweights", "").split(","))
        gpu = max((_weight(weight) for key, weight in weights.items() if key.startswith("gres/gpu")), default=0.0)
        part = min((_weight(weight) for key, weight in weights.items() if key.startswith("gres/shard")), default=0.0)
        if 2 * part < gpu:
            said = "no shards: who shares pays nothing" if not part else "shards at less than half of one"
            yield mend(f"partition {name} bills GPUs and {said}",
                       f"TRESBillingWeights=...,GRES/shard={gpu / 2:g}    # half of a GPU: two have it at most",
                       f"{conf.file}, partition {name}", RECONFIGURE)  # fmt: skip
    if conf.value("AccountingStorageType").endswith("slurmdbd") and "gres/shard" not in conf.words(
        "AccountingStorageTRES"
    ):
        yield note("accounting does not count shards: who had a part of a GPU can't be told later",
                   "AccountingStorageTRES=...,gres/shard", conf.file)  # fmt: skip


def _weight(text: str) -> float:
    """0 where it is none; counts of GPUs and shards take no unit, so neither does a weight."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _lost(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    """Jobs of two types of shards leave one behind: the node is idle, and Slurm counts it as given out."""
    if not (conf.has("GresTypes", "shard") or conf.has("GresTypes", "mps")):
        return
    told, _ = site.answer("scontrol", ("-d", "-o", "show", "node"))
    idle = (keys for keys in map(_keys, told.splitlines()) if re.match(r"IDLE\b", keys.get("State", "")))
    lost = [keys["NodeName"] for keys in idle if any(item.n for item in items_in(keys.get("GresUsed", ""), SHARED))]
    if lost:
        yield mend(f"{fold(lost)}: no job is there, and parts of GPUs count as given out: no whole-GPU job gets those",
                   RECONFIGURE, then="before 24.11 restart slurmctld instead")  # fmt: skip


def _keys(line: str) -> Mapping[str, str]:
    return {word.partition("=")[0]: word.partition("=")[2] for word in line.split()}
