"""What slurm.conf says of scheduling. In: a Site. Out: advice; also where the running slurmctld says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok, to_place
from pal_slurm.doctor.site import Site
from pal_slurm.doctor.slurm_conf import SlurmConf
from pal_slurm.slurm.capabilities import parse_release

STEP = 20
TITLE = "slurm.conf"
RECONFIGURE = "scontrol reconfigure"
RESTART = "systemctl restart slurmctld"
SHOWS_CLOUDS = (23, 2, 0)
_ONCE = ("schedulerparameters", "priorityflags", "jobsubmitplugins", "grestypes", "clifilterplugins")
# What slurmctld must have read: the setting, the word of it, and why.
_WANTED = (
    ("SchedulerParameters", "disable_job_shrink", "pald refuses to pin without it"),
    ("JobSubmitPlugins", "lua", "no job gets a lease"),
    ("GresTypes", "gpu", "Slurm knows no GPUs"),
)


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        if site.conf_path:
            yield mend(f"{site.conf_path} can't be read", f"ls -l {site.conf_path}", then="or run this as root")
        return
    said = [*_files(conf), *_words(site, conf), *_priority(site, conf), *_devices(conf), *_clouds(site, conf)]
    said += _unread(site, conf)
    yield from said or [ok(f"{conf.file} has what pald needs")]


def _files(conf: SlurmConf) -> Iterator[Advice]:
    for gone in conf.missing:
        yield mend(f"includes {gone.value}, which can't be read", f"ls -l {gone.value}", gone.place, RECONFIGURE)
    for key in _ONCE:
        if len(found := conf.settings.get(key, [])) > 1:
            both = ",".join(dict.fromkeys(word for one in found for word in one.words))
            names = {"schedulerparameters": "SchedulerParameters", "priorityflags": "PriorityFlags"}
            name = names.get(key, key)
            yield mend(
                f"{name} stands {len(found)} times, and only the last, line {found[-1].line}, counts",
                f"{name}={both}", f"{found[-1].place}, and take out line {found[0].line}", RECONFIGURE,
            )  # fmt: skip


def _wanted(site: Site) -> Iterator[tuple[str, str, str]]:
    """Where pald only excludes nodes it asks nothing of Slurm's scheduling."""
    return (wanted for wanted in _WANTED if not site.leases_nobody or wanted[0] == "GresTypes")


def _words(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    for key, word, why in _wanted(site):
        if not conf.has(key, word) and len(conf.settings.get(key.lower(), [])) < 2:
            then = RESTART if key != "SchedulerParameters" else RECONFIGURE
            say = mend if key == "GresTypes" else to_place
            yield say(f"{key} lacks {word}: {why}", *_line(conf, key, word), then)


def _line(conf: SlurmConf, key: str, word: str) -> tuple[str, str]:
    """The line as it should be, and where."""
    found = conf.get(key)
    words = [*(found.words if found else []), word]
    return f"{key}={','.join(words)}", f"{found.place}, in its place" if found else conf.file


def _priority(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    if site.leases_nobody:
        return
    multifactor = conf.value("PriorityType", "priority/multifactor").lower() == "priority/multifactor"
    if multifactor and not conf.has("PriorityFlags", "ACCRUE_ALWAYS"):
        yield to_place(
            "PriorityFlags lacks ACCRUE_ALWAYS: leased jobs gather no age",
            *_line(conf, "PriorityFlags", "ACCRUE_ALWAYS"), RECONFIGURE,
        )  # fmt: skip


def _devices(conf: SlurmConf) -> Iterator[Advice]:
    # Slurm's own default is select/linear up to 23.11, so an absent line says nothing that can be relied on.
    found = conf.get("SelectType")
    if found is None or found.value.lower() != "select/cons_tres":
        said = f"is {found.value}" if found else "is not set"
        yield mend(
            f"SelectType {said}: only select/cons_tres gives jobs single GPUs", "SelectType=select/cons_tres",
            f"{found.place}, in its place" if found else conf.file, f"{RESTART}, while no job runs",
        )  # fmt: skip


def _clouds(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    clouds = any(node.state.upper().startswith("CLOUD") for node in conf.nodes)
    if not clouds or conf.has("PrivateData", "cloud") or not site.running:
        return
    if parse_release(site.running["SLURM_VERSION"]) < SHOWS_CLOUDS:
        yield mend(
            "this release hides cloud nodes that are powered down: jobs wait for others, where Slurm would boot one",
            *_line(conf, "PrivateData", "cloud"), RECONFIGURE,
        )  # fmt: skip


def _unread(site: Site, conf: SlurmConf) -> Iterator[Advice]:
    """What the file says by now, and slurmctld has not read."""
    if not site.running:
        return
    for key, word, why in (*_wanted(site), ("PriorityFlags", "ACCRUE_ALWAYS", "leased jobs gather no age")):
        told = [one.strip().lower().rpartition("/")[2] for one in site.running.get(key, "").split(",")]
        if conf.has(key, word) and word.lower() not in told:
            if key == "PriorityFlags" and site.running.get("PriorityType") == "priority/basic":
                continue
            then = RECONFIGURE if key in ("SchedulerParameters", "PriorityFlags") else RESTART
            say = mend if key == "GresTypes" else to_place
            yield say(
                f"{conf.file} says {key}={word}, and the running slurmctld does not: {why}", then, then="look again"
            )
    if (live := site.running.get("SLURM_CONF", "")) and live != conf.file and not site.slurm_conf:
        yield note(f"slurmctld runs with {live}, and {conf.file} was looked at")
