# pal-slurm-probe: what a compute node needs, and nothing else of pal-slurm.
. packaging/deb/common.sh

stage=$work/pal-slurm-probe
lib=$stage/usr/lib/pal-slurm-probe
mkdir -p "$lib"
pip install --no-compile --only-binary :all: --no-deps --target "$work/all" "$work"/dist/*.whl
pip install --no-compile --only-binary :all: --no-deps --target "$lib" "nvidia-ml-py>=12.535"
find "$lib" \( -name direct_url.json -o -name RECORD -o -name INSTALLER -o -name REQUESTED \) -delete
rm -rf "$lib/bin" "$lib/example.py"
mkdir "$lib/pal_slurm"
cp -r "$work/all/pal_slurm/__init__.py" "$work/all/pal_slurm/probe" "$lib/pal_slurm/"
launcher "$stage" pal-probe /usr/bin/python3 /usr/lib/pal-slurm-probe pal_slurm.probe.main
launcher "$stage" pal-run /usr/bin/python3 /usr/lib/pal-slurm-probe pal_slurm.probe.running.main
manual_of "$stage" "$work/all/share" pal-probe pal-run
for unit in etc/systemd/pal-probe*; do
    if [ -f "$unit" ]; then install -D -m 644 -t "$stage/usr/lib/systemd/system" "$unit"; fi
done
install -D -m 644 packaging/deb/pal-slurm-probe.sysusers "$stage/usr/lib/sysusers.d/pal-slurm-probe.conf"
copyright "$stage" pal-slurm-probe
bundled "$lib" >"$stage/usr/share/doc/pal-slurm-probe/bundled.txt"

chmod -R u=rwX,go=rX "$stage"
control "$stage" pal-slurm-probe "$version" all <<EOF
Section: admin
Priority: optional
Depends: python3 (>= 3.11), systemd, passwd
Recommends: python3-numpy
Description: measures a compute node's GPUs for pal-slurm
 Times kernels on each GPU, watches what jobs do on them, and writes one document that palctl ingest reads on the head
 node. pal-run makes a command that can save its work a job that may be moved. Kernels that need torch use the site's own: run them by PYTHONPATH=/usr/lib/pal-slurm-probe PYTHON -m
 pal_slurm.probe.
EOF
scripts_of "$stage" pal-slurm-probe
make_deb "$stage" pal-slurm-probe
