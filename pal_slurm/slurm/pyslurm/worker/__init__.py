"""The program that runs pyslurm, in a process and an interpreter of its own. In: JSON lines. Out: JSON lines.

It imports the standard library and pyslurm, never the rest of pal_slurm: it is started by path under the Python that
scripts/build-pyslurm made (`PYTHON pal_slurm/slurm/pyslurm/worker`). pyslurm may exit, crash or hang the process,
which is why it has one.
"""
