"""In which order jobs are considered; one file per order."""
