"""What nodes measured, into the store. In: a spool directory of probe documents. Out: runs, samples, scores, alerts.

The store knows the model only, the scores room is pure and the probe knows nobody: the three meet here.
"""
