"""Moves of running jobs: what comes next of each, who begins one, what it cost. In: a snapshot. Out: edits, rows."""
