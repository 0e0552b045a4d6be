"""Whether and how running jobs make way for others; one file per way."""
