"""Real Slurm clusters on one machine, for tests and demonstrations.

In: a `Spec` (release, nodes, GPUs per node ...). Out: a directory with the cluster's configuration, logs and client
wrappers, and one `keeper` process that owns every process of the cluster. Standard library only.
"""
