"""The probe's errors. In: what went wrong on a node. Out: a sentence that says what to do.

They stand apart from pal_slurm.errors, so that a compute node needs this directory only.
"""

from __future__ import annotations


class ProbeError(Exception):
    """`str()` is a whole sentence for a person."""

    exit_code = 1


class BadInput(ProbeError):
    """A file or text given to us is wrong."""

    exit_code = 65


class NoDevices(ProbeError):
    """The devices can't be asked at all: no driver, no library, no description."""

    exit_code = 69


class DeviceLost(ProbeError):
    """One device fell off the bus, needs a reset or does not answer; the others may be well."""


class NotOurs(ProbeError):
    """A device that this process may not touch: it was given to another job."""
