"""Tests on real Slurm daemons: see conftest.py."""
