"""Linear programs, solved by HiGHS. In: columns with their entries, bounds of the rows. Out: values, duals.

The solver is asked with a limit of its own time; a program that it can't finish is an answer too: `NoAnswer`, with the
reason, and whoever asked keeps what he had.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import highspy
import numpy as np

from pal_slurm.model import FloatArray, IntArray

INFINITY: float = float(highspy.kHighsInf)
MOST_S = 600.0  # for any program: its thread comes to an end; who is waited for says less
_NO_COUNTS = np.zeros(0, dtype=np.int32)
_NO_VALUES = np.zeros(0)


class Lack(Enum):
    INFEASIBLE = auto()
    TOO_LATE = auto()  # its time ran out, and it had found nothing yet
    LOST = auto()  # anything else


class NoAnswer(Exception):
    """The solver found nothing; `why` says whether there is something to be found."""

    def __init__(self, why: Lack) -> None:
        super().__init__(why.name)
        self.why = why


@dataclass(frozen=True, slots=True)
class Optimum:
    columns: FloatArray
    duals: FloatArray  # by row; none where whole numbers were asked for
    value: float
    proven: bool = True  # False: the time ran out with this as the best found


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a program: what each gains, its most, and its entries one column after the other."""

    gain: FloatArray
    upper: FloatArray
    starts: IntArray  # (columns + 1,)
    rows: IntArray
    values: FloatArray


def packed(rows: IntArray, values: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Starts, rows and values of columns with a row of entries each; a row number below 0 is no entry."""
    there = rows >= 0
    starts = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, rows[there].astype(np.int32), values[there]


class LinearProgram:
    """Maximise the summed gain of columns >= 0; it may be changed and solved again from where it ended."""

    def __init__(
        self, columns: Columns, lower: FloatArray, upper: FloatArray, *, whole: bool = False, gap: float = 1e-3
    ) -> None:
        """`lower`, `upper`: of the rows. `whole`: columns take whole values only, within `gap` of the best."""
        self._highs = highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        self._whole, self._inside = whole, False
        n, m = len(columns.gain), len(lower)
        if whole:
            highs.setOptionValue("mip_rel_gap", gap)
        kind = np.ones(n, dtype=np.int32) if whole else np.zeros(n, dtype=np.int32)
        highs.passModel(
            n, m, len(columns.rows), 0, int(highspy.MatrixFormat.kColwise), 1, int(highspy.ObjSense.kMaximize), 0.0,
            columns.gain, np.zeros(n), columns.upper, lower, upper, columns.starts, columns.rows, columns.values,
            _NO_COUNTS, _NO_COUNTS, _NO_VALUES, kind,
        )  # fmt: skip

    def interior(self, *, corner: bool = True) -> None:
        """Solve by the interior point method: faster from cold where thousands of rows differ.

        `corner`: end in a corner, as every other method does.
        """
        self._highs.setOptionValue("solver", "ipm")
        if not corner:
            self._inside = True
            self._highs.setOptionValue("run_crossover", "off")

    def change(self, row: int, column: int, value: float) -> None:
        self._highs.changeCoeff(row, column, value)

    def bound(self, row: int, lower: float, upper: float) -> None:
        self._highs.changeRowBounds(row, lower, upper)

    def begin(self, values: FloatArray) -> None:
        """What is known to be possible."""
        self._highs.setSolution(len(values), np.arange(len(values), dtype=np.int32), values)

    def solve(self, most_s: float = MOST_S) -> Optimum:
        highs = self._highs
        highs.setOptionValue("time_limit", highs.getRunTime() + most_s)
        highs.run()
        status = highs.getModelStatus()
        if self._inside and status == highspy.HighsModelStatus.kUnknown:  # near, and not near enough
            highs.setOptionValue("run_crossover", "on")
            highs.run()
            highs.setOptionValue("run_crossover", "off")
            status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise NoAnswer(Lack.INFEASIBLE)
        late = status == highspy.HighsModelStatus.kTimeLimit
        if late and not (self._whole and highs.getInfo().primal_solution_status == 2):
            raise NoAnswer(Lack.TOO_LATE)
        if not late and status != highspy.HighsModelStatus.kOptimal:
            raise NoAnswer(Lack.LOST)
        found = highs.getSolution()
        duals = _NO_VALUES if self._whole else np.array(found.row_dual)
        return Optimum(np.array(found.col_value), duals, float(highs.getObjectiveValue()), not late)
