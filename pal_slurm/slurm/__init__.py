"""The one port to Slurm; the only room that knows a Slurm version."""
