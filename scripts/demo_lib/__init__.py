"""The demo: one workload, three times on a real Slurm, and a table of what placement gained."""
