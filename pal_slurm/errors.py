"""Every error that pal-slurm raises on purpose. In: what went wrong. Out: a sentence that says what to do.

PalError
|- ConfigError         a file or option of ours is wrong            exit 78
|- BadInput            a file or text given to us is wrong          exit 65
|- SlurmError
|  |- SlurmUnavailable no answer, or none that can be trusted       exit 75
|  `- SlurmRefused     slurmctld said no
|- StoreError          the database can't be used                   exit 74
|  |- StoreGone        it was removed while in use                  exit 74
|  `- StoreRefused     a row that it can't hold; others it takes    exit 74
`- NotLeader           another pald is at work                      exit 75
"""

from __future__ import annotations


class PalError(Exception):
    """Base of all; `str()` is a whole sentence for a person."""

    exit_code = 1


class ConfigError(PalError):
    exit_code = 78


class BadInput(PalError):
    exit_code = 65


class SlurmError(PalError):
    exit_code = 75


class SlurmUnavailable(SlurmError):
    """slurmctld or our way to it gave no answer that can be trusted; nothing was decided from it."""


class SlurmRefused(SlurmError):
    """slurmctld answered, and the answer was no."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreError(PalError):
    exit_code = 74


class StoreGone(StoreError):
    """The database's file was removed or replaced while in use; only a fresh start helps."""


class StoreRefused(StoreError):
    """The database refuses one row for what stands in it; what is written after it goes through."""


class NotLeader(PalError):
    exit_code = 75
