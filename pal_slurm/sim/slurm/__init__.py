"""Slurm in memory, behind the very port: SimSlurm for simulations, and for tests of what talks to Slurm."""
