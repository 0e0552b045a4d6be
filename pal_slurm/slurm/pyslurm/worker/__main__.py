"""Starts the worker when this directory is run as a program: `PYTHON .../worker`."""

import importlib
import sys
from pathlib import Path

# Under its own parent only, so that the modules import each other as a package and nothing else of pal_slurm is seen.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.exit(importlib.import_module(f"{Path(__file__).resolve().parent.name}.serve").main())
