"""The hidden true speeds of the fake GPUs: Spec (and a seed or a file) -> {"n1": {"g0": {"A": 1.2, ...}}}.

1.2 means 20 % slower than the median GPU of its model, as in the PM-score. palwork reads them; the daemon never does.
"""

import json
import random
import statistics
from pathlib import Path

from .errors import MiniclusterError
from .spec import Spec

Speeds = dict[str, dict[str, dict[str, float]]]
CLASSES = ("A", "B", "C")
# How much of a GPU's slowness an application of the class feels.
_SENSITIVITY = {"A": 1.0, "B": 0.4, "C": 0.05}
_OUTLIER_SHARE = 0.04


def equal(spec: Spec) -> Speeds:
    return {n: {s: dict.fromkeys(CLASSES, 1.0) for s in spec.slots} for n in spec.node_names}


def synthetic(spec: Spec, seed: int) -> Speeds:
    """A narrow log-normal bulk and a few far outliers, median 1.0 per model: the shape that real clusters show."""
    rng = random.Random(seed)
    raw: dict[str, list[float]] = {}
    for node in spec.node_names:
        raw[node] = [
            rng.uniform(1.4, 2.8) if rng.random() < _OUTLIER_SHARE else rng.lognormvariate(0, 0.07) for _ in spec.slots
        ]
    by_model: dict[str, list[float]] = {}
    for i, node in enumerate(spec.node_names, 1):
        by_model.setdefault(spec.model_of(i), []).extend(raw[node])
    speeds: Speeds = {}
    for i, node in enumerate(spec.node_names, 1):
        median = statistics.median(by_model[spec.model_of(i)]) if spec.gpus else 1.0
        speeds[node] = {
            slot: {c: round(1 + (value / median - 1) * _SENSITIVITY[c], 4) for c in CLASSES}
            for slot, value in zip(spec.slots, raw[node], strict=True)
        }
    return speeds


def from_file(spec: Spec, path: Path) -> Speeds:
    """The file's speeds; GPUs it leaves out are 1.0."""
    speeds = equal(spec)
    try:
        given: Speeds = json.loads(path.read_text())
        for node, slots in given.items():
            for slot, classes in slots.items():
                for name, value in classes.items():
                    if not 0.01 < float(value) < 1000:
                        raise MiniclusterError(f"{path}: {node}.{slot}.{name} = {value} is no speed")
                    speeds[node][slot][name] = float(value)
    except OSError as error:
        raise MiniclusterError(f"--speeds {path}: {error.strerror}") from error
    except KeyError as error:
        raise MiniclusterError(f"--speeds {path}: the cluster has no {error.args[0]!r}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise MiniclusterError(f'--speeds {path}: not of the form {{"n1": {{"g0": {{"A": 1.2}}}}}}: {error}') from error
    return speeds
