"""What nodes and jobs measured, into the store. In: a spool of probe documents. Out: runs, samples, alerts.

The store knows the model only and the probe knows nobody: the two meet here.
"""
