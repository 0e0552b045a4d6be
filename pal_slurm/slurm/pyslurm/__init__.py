"""Slurm through pyslurm, which lives in a worker process. In: edits. Out: snapshots, jobs, edit results."""
