"""The client commands of a cluster, DIR/bin/*: they enter its world and run the real client there.

One shell script under many names. It costs two execs (a few ms): no Python. Inside the world it only runs the command.
Root enters the namespaces of the keeper; another user, who may not, makes the same view in a user namespace of his own.
"""

import shutil
from pathlib import Path

from .layout import PROJECT, Layout

_SLURM = "queue control info batch run alloc cancel diag acct acctmgr stat share prio report attach bcast trigger"
CLIENTS = [*(f"s{name}" for name in _SLURM.split()), "python3", "make", "gcc", "palwork", "slurmctld", "slurmd"]
INSIDE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SCRIPT = r"""#!/bin/sh
# Runs a command inside the mini-cluster @NAME@: `in-cluster [--user USER] CMD...`, or under a client's own name.
dir='@DIR@'
case ${0##*/} in
    in-cluster) ;;
    *) set -- "${0##*/}" "$@" ;;
esac
as=
if [ "$1" = --user ]; then
    case ${2-} in '' | */*) echo "in-cluster: --user: whose?" >&2; exit 64 ;; esac
    as=$2
    shift 2
fi
if [ $# = 0 ]; then echo "usage: in-cluster [--user USER] CMD..." >&2; exit 64; fi
export SLURM_CONF="$dir/etc/slurm.conf" PATH="$dir/tools:@PATH@"
[ -z "$as" ] || set -- "$dir/run/as-user" "$as" "$@"
[ ! -e "$dir/run/world/inside" ] || exec "$@"

# Is the keeper alive, and the one that wrote the file? Field 22 of stat is the start time.
alive() {
    read -r pid start 2>/dev/null <"$dir/run/keeper" || return 1
    read -r stat 2>/dev/null <"/proc/$pid/stat" || return 1
    set -- ${stat##*) }
    [ "${20}" = "$start" ]
}
alive || { echo "mini-cluster @NAME@ is not up: scripts/minicluster up --name @NAME@" >&2; exit 69; }

if [ -w /proc/1/environ ]; then
    exec nsenter -t "$pid" -m -u -r -w /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$PWD" "$@"
fi
[ -z "$as" ] || { echo "in-cluster: only root can run something as another user" >&2; exit 77; }
exec unshare --map-current-user --keep-caps --mount --uts "$dir/run/enter-as-user" "$PWD" "$@"
"""

# Inside, where the cluster's own users are known. Those begin at home, as at a login.
_AS_USER = r"""#!/bin/sh
as=$1
shift
group=$(id -g -- "$as") || exit 67
if [ -d '@DIR@/home/'"$as" ]; then
    cd '@DIR@/home/'"$as"
    export HOME='@DIR@/home/'"$as" USER="$as" LOGNAME="$as"
fi
exec setpriv --reuid="$as" --regid="$group" --init-groups -- "$@"
"""

# The mounts of world.py once more, for one command of a user. Lacks the mark: such a client is the user's own process.
_ENTER_AS_USER = r"""#!/bin/sh
# Started by DIR/bin/* in a user namespace: makes the view that the cluster has, and runs a command without privileges.
set -e
hostname localhost
for path in passwd group; do
    [ ! -e '@DIR@/etc/'"$path" ] || mount --bind '@DIR@/etc/'"$path" "/etc/$path"
done
root='@ROOT@'
if [ -n "$root" ]; then
    new='@DIR@/run/root'
    mount -t tmpfs -o mode=755 pal-minicluster-user "$new"
    mkdir -p "$new/run" "$new/var/cache" "$new/var/lib"
    for path in "$root"/*; do
        [ ! -L "$path" ] || ln -s "$(readlink "$path")" "$new/${path##*/}"
    done
    for path in /*; do
        case $path in /usr|/etc|/run|/var|/boot|/lost+found) continue ;; esac
        if [ -d "$path" ] && [ ! -L "$path" ]; then mkdir -p "$new$path"; mount --rbind "$path" "$new$path"; fi
    done
    for path in usr etc; do mkdir "$new/$path"; mount --rbind "$root/$path" "$new/$path"; done
    for path in /var/tmp '@CACHE@' '@DIR@'; do
        case $path in /var/*|/run/*) mkdir -p "$new$path"; mount --rbind "$path" "$new$path" ;; esac
    done
    for path in passwd group resolv.conf; do
        [ ! -e "$root/etc/$path" ] || mount --bind "/etc/$path" "$new/etc/$path"
    done
    exec chroot "$new" /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift
        exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"' sh "$@"
fi
mount --bind '@DIR@/etc/hosts' /etc/hosts
shift
exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"
"""


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def install(layout: Layout, root: Path | None, cache: Path) -> None:
    values = {"@NAME@": layout.name, "@DIR@": str(layout.dir), "@PATH@": INSIDE_PATH}
    values |= {"@ROOT@": str(root or ""), "@CACHE@": str(cache)}
    scripts = {
        layout.bin / "in-cluster": _SCRIPT,
        layout.run / "enter-as-user": _ENTER_AS_USER,
        layout.run / "as-user": _AS_USER,
    }
    for path, text in scripts.items():
        for key, value in values.items():
            text = text.replace(key, value)
        _write(path, text)
    for client in CLIENTS:
        (layout.bin / client).symlink_to("in-cluster")
    palwork = PROJECT / "scripts" / "palwork"
    if palwork.exists():
        shutil.copy(palwork, layout.tools / "palwork")
        shutil.copytree(palwork.with_name("palwork_lib"), layout.tools / "palwork_lib")
