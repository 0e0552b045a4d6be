"""While a cycle goes on nobody looks for garbage. In, out: nothing.

What a cycle makes at a large site are hundreds of thousands of objects, most of which go when it ends. Python would
walk through all of them every now and then meanwhile, in vain: a plan would take a sixth longer, and its edits with it.
It does so once, when the cycle is over.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unswept() -> Iterator[None]:
    sweeps = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if sweeps:
            gc.enable()
            gc.collect(0)
