"""Which GPUs a job gets; one file per way of choosing."""
