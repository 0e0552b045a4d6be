"""Slurm through its own commands: every release from 22.05 on. In: edits. Out: snapshots, jobs, edit results."""
