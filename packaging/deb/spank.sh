# pal-slurm-spank-RELEASE: pal.so, compiled against the headers of one major release of Slurm, in Debian's place for plugins.
. packaging/deb/common.sh

spank_of() { # ROOT
    local root=${1%/} found release next stage name
    found=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version}' libslurm-dev 2>/dev/null) || return 0
    release=$(echo "$found" | grep -o '^[0-9]*\.[0-9]*')
    next=${release%.*}.$(printf '%02d' $((10#${release#*.} + 1)))
    name=pal-slurm-spank-$release
    stage=$work/$name
    mkdir -p "$stage/usr/share/pal-slurm-spank"
    cp -r spank "$work/spank-$release"
    compile "$root" "$work/spank-$release" >"$work/spank.log" 2>&1 ||
        { tail -n 20 "$work/spank.log" >&2; fail "the plugin does not build for Slurm $release, see above"; }
    install -D -m 644 -t "$stage/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/slurm-wlm" "$work/spank-$release/build/pal.so"
    strip --strip-unneeded "$stage"/usr/lib/*/slurm-wlm/pal.so
    install -m 644 -t "$stage/usr/share/pal-slurm-spank" spank/job_submit.lua spank/cli_filter.lua etc/slurm/*.conf
    install -m 755 -t "$stage/usr/share/pal-slurm-spank" spank/pal_task_prolog
    copyright "$stage" "$name"
    chmod -R u=rwX,go=rX "$stage"
    control "$stage" "$name" "$version~$(debian_of "$root")" "$arch" <<EOF
Section: admin
Priority: optional
Provides: pal-slurm-spank
Conflicts: pal-slurm-spank
Replaces: pal-slurm-spank
Depends: libc6
Breaks: slurm-client (<< $release~), slurm-client (>= $next~)
Enhances: slurm-client
Description: pal-slurm's SPANK plugin for Slurm $release
 Gives sbatch, srun and salloc the option --pal-app=NAME. A SPANK plugin works with the major release of Slurm that it
 was built for: apt takes this package out when slurm-client becomes another one. It also brings job_submit.lua and its
 settings, in /usr/share/pal-slurm-spank; they go beside slurm.conf.
EOF
    make_deb "$stage" "$name"
}

compile() { # ROOT DIRECTORY: make within ROOT, whose headers and compiler are the right ones
    if [ -z "$1" ]; then
        CFLAGS=-ffile-prefix-map=$2=. make -C "$2" # the directory's name would be in the plugin's build id
        return
    fi
    [ "$(id -u)" = 0 ] || fail "must be root to build within $1; or leave the part spank out"
    unshare --mount --propagation private sh -eu -c '
        mount --bind "$2" "$1/mnt"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C chroot "$1" make -C /mnt
    ' sh "$1" "$2"
}

spank_of ""
for root in "${PAL_CACHE:-/var/cache/pal-slurm}"/rootfs/[0-9]*; do
    if [ -d "$root" ]; then spank_of "$root"; fi
done
