"""pald: joins the port to Slurm, store, policy and guard. In: pal.yaml. Out: edits, and one sentence a cycle."""
