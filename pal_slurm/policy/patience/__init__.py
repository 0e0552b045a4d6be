"""Start now or wait for a better span; one file per kind of patience."""
