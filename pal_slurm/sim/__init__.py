"""Event-driven twin of a cluster. In: a trace and a profile. Out: outcomes. Drives the policies of the daemon."""
