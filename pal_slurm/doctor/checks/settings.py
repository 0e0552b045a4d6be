"""pal.yaml. In: a Site. Out: advice: missing, mistakes by line, commands that are not where it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pal_slurm.config import NEED_RESTART, sample
from pal_slurm.config.read import Mistake
from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.slurm.commands.cluster import ASSOCIATED

STEP = 70
TITLE = "pal.yaml"
SLURMDBD = "accounting_storage/slurmdbd"


def look(site: Site) -> Iterator[Advice]:
    path = site.pal_yaml
    if not site.there(path):
        yield mend("it is not there", f"palctl config sample >{path}", path, fix=_new(site))
        return
    for mistake in site.mistakes:
        yield _mended(site, mistake)
    where = site.pal.cluster.bin_dir
    if where and not site.there(f"{where}/scontrol"):
        yield mend(f"cluster.bin_dir is {where}, and there is no scontrol in it", "cluster: {bin_dir: /usr/bin}", path)
    if not site.mistakes and not site.may_read(site.user, path):
        yield mend(
            f"it can't be read by {site.user}, whom pald runs as", f"chgrp {site.user} {path}; chmod 640 {path}", path
        )
    elif not site.mistakes and (not where or site.there(f"{where}/scontrol")):
        yield ok(f"{path}: good; actuator {site.pal.actuator}")
        yield from _weights(site)


def _mended(site: Site, mistake: Mistake) -> Advice:
    path = site.pal_yaml
    said = ": ".join(filter(None, (f"line {mistake.line}" if mistake.line else "", mistake.key, mistake.message)))
    add, fix = f"palctl config explain {mistake.key}" if mistake.key else f"palctl config check {path}", None
    if mistake.message.startswith("can be written by everybody"):
        add, fix = f"chmod o-w {path}", _closed(site)
    # A pald that does not run for its sake is started by the first.
    then = "reload-or-restart" if mistake.key.partition(".")[0] not in NEED_RESTART else "restart"
    return mend(said, add, f"{path}:{mistake.line}" if mistake.line else path, f"systemctl {then} pald", fix)


def _weights(site: Site) -> Iterator[Advice]:
    """Of accounts, where an entitlement goes by them."""
    policy, conf = site.pal.policy, site.conf
    if policy.entitlement == "none" or not (policy.entitlement or policy.name.startswith("gavel")) or conf is None:
        return
    if conf.value("AccountingStorageType").lower() != SLURMDBD:
        yield note("policy.entitlement goes by the weights of accounts: without slurmdbd all count the same",
                   f"AccountingStorageType={SLURMDBD}", conf.file)  # fmt: skip
        return
    if ASSOCIATED.isdisjoint(word.lower() for word in conf.words("AccountingStorageEnforce")):
        yield note("anybody may name any account, and policy.entitlement owes each a part: who names many has more",
                   "AccountingStorageEnforce=associations", conf.file)  # fmt: skip
    if site.running:
        _, silence = site.answer("sacctmgr", ["show", "assoc", "format=account,parentname,share", "-P", "-n"])
        if silence:
            yield note(f"slurmdbd does not tell the weights of accounts, by which policy.entitlement goes: {silence}",
                       "systemctl status slurmdbd")  # fmt: skip


def _new(site: Site) -> Callable[[], str]:
    def write() -> str:
        file = site.at(site.pal_yaml)
        file.parent.mkdir(mode=0o750, exist_ok=True)
        file.write_text(sample(), encoding="utf-8")
        file.chmod(0o640)
        for ours in (str(Path(site.pal_yaml).parent), site.pal_yaml):
            site.give(ours, owner=False)
        return f"wrote {site.pal_yaml}: every key with its default, actuator shadow"

    return write


def _closed(site: Site) -> Callable[[], str]:
    def close() -> str:
        file = site.at(site.pal_yaml)
        file.chmod(file.stat().st_mode & ~0o002)
        return f"chmod o-w {site.pal_yaml}"

    return close
