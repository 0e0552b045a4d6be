"""The compute-node programs: pal-probe, a node's GPUs to one JSON document or a job's JSON lines; pal-run in `running`.

It runs with the standard library alone (numpy, pynvml and torch are imported where one is used) and imports no other
room of pal_slurm. A training script reports its step times with one line:

    from pal_slurm.probe import steps

    for batch in steps(batches): ...
"""

from pal_slurm.probe.steps import Steps, steps

__all__ = ["Steps", "steps"]
