"""Schedulers of others as published, and schedulers of ours that pald cannot run, for comparison in the simulator.

They are not installed. `python -m benchmarks.published` runs them beside the policies of `palctl simulate`.
"""
