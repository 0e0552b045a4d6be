"""The way to Slurm that pal.yaml asks for. In: Config. Out: a backend that answered.

`auto` takes pyslurm where its worker starts and says so where it does not; the cli backend serves every release.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.errors import BadInput, SlurmError
from pal_slurm.slots.links import links_in
from pal_slurm.slurm.commands.backend import CliSlurm
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.nodes import SiteWords
from pal_slurm.slurm.port import Slurm
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm

log = logging.getLogger("pald")


def connect(config: Config) -> Slurm:
    """A backend; a slurmctld that is away for now is no reason to fail, a worker that can't start is."""
    slurm = _backend(config)
    slurm.movable(config.moves.qos, config.moves.partitions)
    return slurm


def _backend(config: Config) -> Slurm:
    if config.cluster.backend == "cli":
        return _cli(config)
    python = (*config.cluster.worker_command, config.cluster.worker_python)
    worker = PyslurmSlurm(python, site=_site(config), deadline_s=config.cluster.timeout_s, commands=commands_of(config))
    if config.cluster.backend == "pyslurm":
        return worker
    try:
        worker.capabilities()
    except SlurmError as e:
        worker.close()
        log.info("cluster.backend auto: cli, because pyslurm can't be used: %s", e)
        return _cli(config)
    return worker


def _cli(config: Config) -> Slurm:
    bin_dir = Path(config.cluster.bin_dir) if config.cluster.bin_dir else None
    return CliSlurm(bin_dir, _site(config), config.cluster.timeout_s)


def commands_of(config: Config) -> Commands:
    """For the few questions that only a command answers, whatever the backend."""
    return Commands(Path(config.cluster.bin_dir) if config.cluster.bin_dir else None, config.cluster.timeout_s)


def _site(config: Config) -> SiteWords:
    """Whose jobs may be moved is told beside (`Slurm.movable`): a reload may change it."""
    try:
        linked = links_in(config.cluster.gres_conf)
    except BadInput as e:
        log.warning("cluster.gres_conf: %s; all GPUs of a node count as linked", e)
        linked = {}
    return SiteWords(
        models=config.cluster.models,
        linked=linked,
    )
