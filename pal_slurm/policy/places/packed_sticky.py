"""`packed-sticky`: the literature's name (Tiresias in PAL's figures) for `packed` where running jobs stay.

In the seams every running job stays where it is, so it is `packed`; the published code, which can ask for any set of
GPUs and stops running jobs for those ahead of them, is `artifact/packed-sticky`.
"""

from __future__ import annotations

from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import placements

placements.register("packed-sticky", lambda _: Ranking(scores=False))
