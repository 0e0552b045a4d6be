# RPMs for EL 8 to 10 and SLES 15, by rpmbuild: on such a system or, as here, on Debian with its rpm.
command -v rpmbuild >/dev/null || fail "rpmbuild is not here: dnf install rpm-build, or apt-get install rpm"

rpm_arch=$(rpm --eval '%{_arch}')
tops=$work/rpm
mkdir -p "$tops/SOURCES"
cp "$work"/dist/*.tar.gz "$tops/SOURCES/"

wheels_of() { # PYTHON: all wheels for that Python on the oldest of these systems, EL 8 (glibc 2.28), in wheels.tar
    local place=$work/wheels-$1
    [ -d "$place" ] || pip download --only-binary :all: --python-version "$1" --implementation cp \
        --platform "manylinux_2_28_$rpm_arch" --platform "manylinux_2_27_$rpm_arch" --platform "manylinux_2_17_$rpm_arch" \
        --platform "manylinux2014_$rpm_arch" --dest "$place" \
        "$(echo "$work"/dist/*.whl)[report,page,postgresql,mariadb,probe]"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$place" -cf "$tops/SOURCES/wheels.tar" .
}

rpm_of() { # SPEC DIST PYTHON MORE...: the same source gives the same bytes
    local spec=$1 dist=$2 interpreter=$3 compile=:
    shift 3
    "python$interpreter" -c "" 2>/dev/null && # else it is left to be compiled in memory
        compile="python$interpreter -m compileall -q -j 1 --invalidation-mode unchecked-hash -s %{buildroot} %{buildroot}%{lib}"
    rpmbuild -bb --nodeps --define "_topdir $tops" --define "pal_version $version" --define "dist .$dist" \
        --define "pal_python $interpreter" --define "pal_pip $work/venv/bin/python -m pip --disable-pip-version-check" \
        --define "pal_platform --platform manylinux_2_28_$rpm_arch --platform manylinux_2_27_$rpm_arch --platform manylinux_2_17_$rpm_arch --platform manylinux2014_$rpm_arch" \
        --define "pal_compile $compile" --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
        --define "clamp_mtime_to_source_date_epoch 1" --define "build_mtime_policy clamp_to_source_date_epoch" \
        --define "_build_id_links none" --define "_libdir /usr/lib64" --define "packager pal-slurm <pal-slurm@localhost>" "$@" "packaging/rpm/$spec" >"$work/rpm.log" 2>&1 ||
        { tail -n 20 "$work/rpm.log" >&2; fail "packaging/rpm/$spec does not build for $dist, see above"; }
    say "${spec%.spec} for $dist"
}

for target in ${PAL_RPM_TARGETS:-el8:3.11 el9:3.11 el10:3.12 sles15:3.11}; do
    more=()
    case "$target" in sles*) more=(--define "suse_version 1500") ;; esac
    wheels_of "${target#*:}"
    rpm_of pal-slurm.spec "${target%:*}" "${target#*:}" "${more[@]}"
    rpm_of pal-slurm-probe.spec "${target%:*}" "${target#*:}" "${more[@]}"
done
# The plugin for the Slurm whose headers are here; elsewhere rpmbuild finds its own.
if release=$(dpkg-query -W -f '${Version}' libslurm-dev 2>/dev/null || rpm -q --qf '%{version}' slurm-devel 2>/dev/null); then
    release=$(echo "$release" | grep -o '^[0-9]*\.[0-9]*')
    rpm_of pal-slurm-spank.spec "${PAL_RPM_DIST:-el9}" 3.11 --define "slurm_release $release"
fi
cp "$tops"/RPMS/*/*.rpm "$out/"
