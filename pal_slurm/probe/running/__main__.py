"""`python -m pal_slurm.probe.running`: pal-run without an installed script."""

import sys

from pal_slurm.probe.running.main import main

if __name__ == "__main__":
    sys.exit(main())
