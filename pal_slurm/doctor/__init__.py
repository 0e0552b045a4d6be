"""Is a site ready for pal-slurm? In: its files, what Slurm's commands answer. Out: ok or mend, with the line to add."""
