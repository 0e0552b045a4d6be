# pal-slurm: pald and palctl with all Python packages that they need, in a directory of their own.
. packaging/deb/common.sh

stage=$work/pal-slurm
lib=$stage/usr/lib/pal-slurm
interpreter=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
wheel=$(echo "$work"/dist/*.whl)
pip install --no-compile --only-binary :all: --target "$lib" "$wheel[report,page,postgresql,mariadb]"
# What only an installer or a developer reads; the rest of each package stays as its authors made it.
rm -rf "$lib/bin" "$lib/example.py"
find "$lib" \( -name direct_url.json -o -name RECORD -o -name INSTALLER -o -name REQUESTED \) -delete
find "$lib" -type d -name tests -not -path '*/pal_slurm/*' -prune -exec rm -rf {} +
mv "$lib/share" "$work/share"
rm -rf "$lib/etc" # ClusterShell's sample settings

"$python" -m compileall -q -j 1 --invalidation-mode unchecked-hash -s "$stage" "$lib"
launcher "$stage" palctl "/usr/bin/$interpreter" /usr/lib/pal-slurm pal_slurm.cli.palctl
launcher "$stage" pald "/usr/bin/$interpreter" /usr/lib/pal-slurm pal_slurm.cli.pald
launcher "$stage" pal-page "/usr/bin/$interpreter" /usr/lib/pal-slurm pal_slurm.cli.pal_page
manual_of "$stage" "$work/share" palctl pald pal-page pal.yaml

install -D -m 640 etc/pal.yaml "$stage/etc/pal-slurm/pal.yaml"
for unit in etc/systemd/*; do
    case "$unit" in
        */pal-probe*) ;; # a compute node's: probe.sh
        *) install -D -m 644 -t "$stage/usr/lib/systemd/system" "$unit" ;;
    esac
done
install -D -m 644 -t "$stage/usr/lib/sysusers.d" etc/sysusers.d/*
install -D -m 644 -t "$stage/usr/lib/tmpfiles.d" etc/tmpfiles.d/*
mkdir -p "$stage/usr/share"
cp -r "$work/share/pal-slurm" "$stage/usr/share/pal-slurm"
rm -rf "$stage/usr/share/pal-slurm/pal.yaml" "$stage/usr/share/pal-slurm/systemd" # installed in their places above
mkdir -p "$stage/usr/share/doc/pal-slurm"
cp -r README.md docs "$stage/usr/share/doc/pal-slurm/"
copyright "$stage" pal-slurm
bundled "$lib" >"$stage/usr/share/doc/pal-slurm/bundled.txt"

chmod -R u=rwX,go=rX "$stage"
chmod 640 "$stage/etc/pal-slurm/pal.yaml"
control "$stage" pal-slurm "$version~$(debian_of /)" "$arch" <<EOF
Section: admin
Priority: optional
Depends: $interpreter, libstdc++6, systemd, passwd
Suggests: slurm-client, pal-slurm-spank, python3-venv, munge
Description: places pending Slurm GPU jobs on the GPUs that suit them
 Identical GPUs are not identical: pald knows how fast each one is and which applications suffer from a slow one, and
 chooses nodes and devices for jobs that wait. It runs beside an unmodified slurmctld; when it stops, Slurm goes on as if
 it had never been there. It does nothing to Slurm until pal.yaml says so (actuator: pin).
EOF
echo /etc/pal-slurm/pal.yaml >"$stage/DEBIAN/conffiles"
scripts_of "$stage" pal-slurm
make_deb "$stage" pal-slurm
