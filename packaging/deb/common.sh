# Sourced by the parts of scripts/build-packages. Makes a .deb of a directory.

command -v dpkg-deb >/dev/null || fail "dpkg-deb is not here: build .debs on Debian, or name only: wheel"
arch=$(dpkg --print-architecture)
maintainer="pal-slurm <pal-slurm@localhost>"

debian_of() { # ROOT -> deb12
    (. "${1%/}/etc/os-release" && [ "$ID" = debian ] && echo "deb${VERSION_ID:-${VERSION_CODENAME:-sid}}") || fail "${1:-/} is no Debian"
}

control() { # STAGE NAME VERSION ARCH <fields on stdin
    mkdir -p "$1/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$2" "$3" "$4" "$maintainer"
        printf 'Installed-Size: %s\n' "$(du -sk --apparent-size "$1" | cut -f 1)"
        cat
    } >"$1/DEBIAN/control"
}

copyright() { # STAGE NAME
    install -D -m 644 LICENSE "$1/usr/share/doc/$2/copyright"
}

bundled() { # LIB: name, version and licence of each Python package in it
    "$python" - "$1" <<'EOF'
import sys
from importlib.metadata import distributions

for one in sorted(distributions(path=[sys.argv[1]]), key=lambda one: one.name.lower()):
    licences = [c.rpartition(" :: ")[2] for c in one.metadata.get_all("Classifier", []) if c.startswith("License ::")]
    print(one.name, one.version, one.metadata.get("License-Expression") or ", ".join(licences) or "see its metadata", sep="\t")
EOF
}

scripts_of() { # STAGE NAME: maintainer scripts
    local script
    for script in postinst prerm postrm; do
        if [ -f "packaging/deb/$2/$script" ]; then install -m 755 "packaging/deb/$2/$script" "$1/DEBIAN/$script"; fi
    done
}

make_deb() { # STAGE NAME: the same stage gives the same bytes
    (cd "$1" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz -z2 --build "$1" "$out" >/dev/null
    say "$2"
}

launcher() { # STAGE PROGRAM PYTHON DIRECTORY MODULE: a program of private Python packages
    mkdir -p "$1/usr/bin"
    cat >"$1/usr/bin/$2" <<EOF
#!$3 -I
import sys

sys.path.insert(0, "$4")
sys.dont_write_bytecode = True
from $5 import main

sys.exit(main())
EOF
    chmod 755 "$1/usr/bin/$2"
}

manual_of() { # STAGE SHARE PROGRAM...: man pages and completions, where Debian looks for them
    local stage=$1 share=$2 program page
    shift 2
    for program in "$@"; do
        for page in "$share"/man/man*/"$program".[1-8]; do
            mkdir -p "$stage/usr/share/man/$(basename "$(dirname "$page")")"
            gzip -9nc "$page" >"$stage/usr/share/man/$(basename "$(dirname "$page")")/$(basename "$page").gz"
        done
        [ -f "$share/bash-completion/completions/$program" ] || continue # pal.yaml is no program
        install -D -m 644 -t "$stage/usr/share/bash-completion/completions" "$share/bash-completion/completions/$program"
        install -D -m 644 -t "$stage/usr/share/zsh/vendor-completions" "$share/zsh/site-functions/_$program"
        install -D -m 644 -t "$stage/usr/share/fish/vendor_completions.d" "$share/fish/vendor_completions.d/$program.fish"
    done
}
