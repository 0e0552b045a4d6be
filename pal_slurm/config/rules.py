"""What must hold beyond the form of single keys. In: a Config, its lines, its keys of bad form. Out: faults."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pal_slurm.config.profile import ProfileSection
from pal_slurm.config.read import Mistake
from pal_slurm.config.schema import Config
from pal_slurm.errors import ConfigError
from pal_slurm.words import digits

if TYPE_CHECKING:
    from pal_slurm.policy.registry import Registry

MOST_PATH = 107  # bytes of a Unix socket's path
NOT_NAMES = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept", "user-agent", "cookie"})


def broken_rules(config: Config, lines: Mapping[str, int], bad: Collection[str] = ()) -> Iterator[Mistake]:
    """Every rule that this config breaks. What rests on a key of bad form is not judged: it has its default here."""
    for rule, sections in (
        (_times, ("lease", "cycle", "leader")),
        (_names, ("classes",)),
        (_patterns, ()),
        (_sharing, ()),
        (_profile, ("classes",)),
        (_places, ()),
        (_page, ()),
        (_policy, ()),
    ):
        if any(_within(key, section) or _within(section, key) for section in sections for key in bad):
            continue
        for key, message in rule(config):
            if not any(_within(other, key) or _within(key, other) for other in bad):
                line = lines.get(key) or lines.get(key.rpartition(".")[0], 0)
                yield Mistake(line, key, message)


def _within(key: str, outer: str) -> bool:
    return key == outer or key.startswith((f"{outer}.", f"{outer}["))


def _times(config: Config) -> Iterator[tuple[str, str]]:
    lease, cycle = config.lease, config.cycle
    if lease.length_s > lease.max_s:
        yield "lease.length_s", f"{lease.length_s:g} is more than lease.max_s ({lease.max_s:g})"
    if lease.margin_s * 2 > lease.length_s:
        yield "lease.margin_s", f"{lease.margin_s:g} is more than half of lease.length_s ({lease.length_s:g})"
    if cycle.interval_s > cycle.max_age_s:
        yield "cycle.interval_s", f"{cycle.interval_s:g} is more than cycle.max_age_s ({cycle.max_age_s:g})"
    if cycle.interval_s * 2 > lease.length_s:
        yield (
            "cycle.interval_s",
            f"{cycle.interval_s:g} is more than half of lease.length_s ({lease.length_s:g}): leases would run out",
        )
    if config.leader.ttl_s < 2 * cycle.interval_s:
        yield "leader.ttl_s", f"{config.leader.ttl_s:g} is less than two cycles ({2 * cycle.interval_s:g})"


def _names(config: Config) -> Iterator[tuple[str, str]]:
    named = config.classes.names
    classes = tuple(dict.fromkeys(named))
    for name in classes:
        if named.count(name) > 1:
            again = named.index(name, named.index(name) + 1)
            yield f"classes.names[{again}]", f"{name} is named {_times_said(named.count(name))}; keep one"
    if config.classes.default not in classes:
        yield "classes.default", f"{config.classes.default} is none of the classes {', '.join(classes)}"
    for name, entry in config.apps.items():
        yield from _models(f"apps.{name}.base", entry.base, config.cluster.models)
        if not entry.cls:
            yield f"apps.{name}", "has no class; add `class: " + config.classes.default + "` or another"
        elif entry.cls not in classes:
            near = difflib.get_close_matches(entry.cls, classes, n=1, cutoff=0.0)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            yield f"apps.{name}.class", f"{entry.cls} is none of the classes {', '.join(classes)}{hint}"
        costs = (entry.comm.gpu, entry.comm.node, entry.comm.rack, entry.comm.cluster)
        if list(costs) != sorted(costs):
            yield f"apps.{name}.comm", f"{costs}: distance can't make it faster; order gpu <= node <= rack <= cluster"
        elif entry.comm.unlinked > entry.comm.rack:
            yield (
                f"apps.{name}.comm.unlinked",
                f"{entry.comm.unlinked:g} is more than rack ({entry.comm.rack:g}): distance can't make it faster",
            )
        elif entry.comm.unlinked > entry.comm.node and not config.cluster.gres_conf:
            yield (
                f"apps.{name}.comm.unlinked",
                "nobody tells which GPUs are linked; name the gres.conf that has Links= in cluster.gres_conf",
            )


def _models(
    key: str, base: Mapping[str, float], models: Sequence[str], *, alone: bool = False
) -> Iterator[tuple[str, str]]:
    """Where the models are known, speeds are told of these, and of more than one: else they tell nothing."""
    for name in base if models else ():
        if name not in models:
            near = difflib.get_close_matches(name, models, n=1, cutoff=0.0)
            yield f"{key}.{name}", f"{name} is none of cluster.models ({', '.join(models)}); did you mean `{near[0]}`?"
    if len(models) > 1 and len(base) == 1 and not alone:
        rest = ", ".join(model for model in models if model not in base)
        yield key, f"tells of {next(iter(base))} only: tell of {rest} too, or leave `base` out, and it is learned"


def _times_said(n: int) -> str:
    return "twice" if n == 2 else f"{n} times"


def _patterns(config: Config) -> Iterator[tuple[str, str]]:
    for i, entry in enumerate(config.patterns):
        if not (entry.tag or entry.job_name or entry.script):
            yield f"patterns[{i}]", "fits every job; say which with tag, job_name or script"


def _sharing(config: Config) -> Iterator[tuple[str, str]]:
    """Both directions of each pair, once, of models that there are."""
    seen: dict[tuple[str, str, str], int] = {}
    for i, pair in enumerate(config.sharing.pairs):
        key = f"sharing.pairs[{i}]"
        two = f"{pair.app} and {pair.beside}"
        said = {"a factor": bool(pair.factor or pair.back), "fits: false": not pair.fits, "measure: true": pair.measure}
        if len(two_ways := [word for word, is_said in said.items() if is_said]) > 1:
            yield key, f"{two}: {', and '.join(two_ways)}; keep one"
        elif pair.fits and not pair.measure and not (pair.factor and pair.back):
            lacking = "factor" if pair.back else "back" if pair.factor else "factor and back"
            yield key, f"{two}: tells not what both cost each other; add {lacking}, or fits: false, or measure: true"
        elif pair.app == pair.beside and pair.factor != pair.back:
            yield key, f"{pair.app} beside itself: factor ({pair.factor:g}) and back ({pair.back:g}) are the same thing"
        if pair.model and config.cluster.models:
            yield from _models(key, {pair.model: 1.0}, config.cluster.models, alone=True)
        names = (min(pair.app, pair.beside), max(pair.app, pair.beside), pair.model)
        if names in seen:
            yield key, f"{two} are told of in sharing.pairs[{seen[names]}] already; keep one"
        seen.setdefault(names, i)


def _profile(config: Config) -> Iterator[tuple[str, str]]:
    classes = dict.fromkeys(config.classes.names)
    for name, cls in config.profile.kernels.items():
        if cls not in classes and config.profile.kernels != ProfileSection().kernels:
            yield "profile.kernels", f"{name} measures {cls}, which is none of {', '.join(classes)}"


def _places(config: Config) -> Iterator[tuple[str, str]]:
    if config.database.url and config.database.url_file:
        yield "database.url_file", "given beside database.url; keep one"
    if "@" in config.database.url and urlsplit(config.database.url).password:
        yield "database.url", "holds a password; put the URL into database.url_file or PAL_DATABASE_URL"
    for key, path in (
        ("state_dir", config.state_dir),
        ("cluster.bin_dir", config.cluster.bin_dir),
        ("cluster.gres_conf", config.cluster.gres_conf),
        ("cycle.wake_file", config.cycle.wake_file),
        ("cycle.alive_file", config.cycle.alive_file),
        ("leader.lock_file", config.leader.lock_file),
        ("database.url_file", config.database.url_file),
        ("profile.spool", config.profile.spool),
        ("profile.logs", config.profile.logs),
        ("sharing.pairs_file", config.sharing.pairs_file),
        ("page.url_file", config.page.url_file),
        ("page.jwt_key", config.page.jwt_key),
        ("page.view_file", config.page.view_file),
        ("users.socket", config.users.socket),
    ):
        if path and not path.startswith("/"):
            yield key, f"{path!r} must be an absolute path: pald may start in any directory"
    for key, listen in (("metrics.listen", config.metrics.listen), ("page.listen", config.page.listen)):
        if why := no_address(listen):
            yield key, f"{listen!r} {why}"
    if config.profile.spool and PurePath(config.state_dir).is_relative_to(config.profile.spool):
        yield "state_dir", f"{config.state_dir} lies in profile.spool, which nodes write; name a directory of its own"
    if len(config.users.socket.encode()) > MOST_PATH:
        yield "users.socket", f"{config.users.socket!r} is longer than a socket's path may be ({MOST_PATH} bytes)"


def no_address(listen: str) -> str:
    if listen.startswith("unix:"):
        path = listen.removeprefix("unix:")
        if not path.startswith("/"):
            return "must hold an absolute path, for example unix:/run/pal-slurm/metrics.sock"
        long = len(path.encode()) > MOST_PATH
        return f"is longer than a socket's path may be ({MOST_PATH} bytes)" if long else ""
    host, _, port = listen.rpartition(":")
    fine = host and digits(port) and 0 < int(port[:9]) < 65536
    return "" if fine or not listen else "must be ADDRESS:PORT, for example 127.0.0.1:9752, or unix:PATH"


def _page(config: Config) -> Iterator[tuple[str, str]]:
    """Whoever may send the header may say that he is anybody."""
    page = config.page
    if page.proxy:
        try:
            address = ip_address(page.proxy)
        except ValueError:
            yield "page.proxy", f"{page.proxy!r} is no IP address; name one, without a port"
            return
        if address.is_loopback:
            yield (
                "page.proxy",
                f"every user of this host can come from {page.proxy} and say that he is anybody; let the proxy come "
                "through a socket: page.listen: unix:/run/pal-page/page.sock",
            )
    if page.user_header and not page.proxy and not page.listen.startswith("unix:"):
        yield "page.user_header", "from whom? name the proxy's address in page.proxy, or listen on unix:PATH"
    if page.user_header.lower() in NOT_NAMES:
        yield "page.user_header", f"{page.user_header} is a header of its own meaning; take X-Remote-User"


def _policy(config: Config) -> Iterator[tuple[str, str]]:
    from pal_slurm.policy.composition import composition_names  # the names that exist are known by the registry alone
    from pal_slurm.policy.seams import entitlements, orders, patiences, placements

    policy = config.policy
    names = composition_names()
    if policy.name not in names:
        near = difflib.get_close_matches(policy.name, names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(names)}"
        yield "policy.name", f"there is no policy {policy.name!r}; {hint}"
    if policy.moving == "value" and config.actuator != "move":
        yield (
            "policy.moving",
            f"actuator {config.actuator} moves no running job; say `actuator: move`, or leave this out",
        )
    seams: list[tuple[str, str, Registry[Any]]] = [
        ("policy.order", policy.order, orders),
        ("policy.placement", policy.placement, placements),
        ("policy.patience", policy.patience, patiences),
        ("policy.entitlement", policy.entitlement, entitlements),
    ]
    for key, name, registry in seams:
        try:
            if name:
                registry.get(name)
        except ConfigError as error:
            yield key, str(error)
