"""pal-slurm: places pending Slurm GPU jobs on the GPUs that suit them."""

__version__ = "0.2.0"
