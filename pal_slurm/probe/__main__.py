"""`python -m pal_slurm.probe`: pal-probe without an installed script."""

import sys

from pal_slurm.probe.main import main

if __name__ == "__main__":
    sys.exit(main())
