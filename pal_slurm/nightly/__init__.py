"""The nightly run: who is idle is measured, nobody waits for it. In: Slurm, the store, pal.yaml. Out: documents.

Joins slurm, ingest and store, as the daemon does for placement; it never runs inside pald.
"""
