"""Whether running jobs are stopped for others; one file per rule."""
