"""Leases: whose a begin time is, how long a lease is, who needs none. In: a snapshot. Out: edits, lines for lua."""
