"""A job log: who asked for how many GPUs, when, and for how long it ran."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auctune.domain import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class JobLog:
    """The jobs of a cluster, n of them, in order of submission.

    Attributes:
        source: the format that it was read from.
        submit_s: [n] seconds from a midnight of the cluster's own clock, on the day of the first
            job where the format has dates, ascending.
        gpus: [n] GPUs asked for, > 0; shares of one where the format has them.
        duration_s: [n] seconds that the job ran, >= 0.
        user: [n] the smallest group of jobs that the format names; "" where it names none.
        left_out: how many jobs of the file are not here, by reason.
    """

    source: str
    submit_s: FloatArray
    gpus: FloatArray
    duration_s: FloatArray
    user: tuple[str, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert len(self.submit_s) == len(self.gpus) == len(self.duration_s) == len(self.user)
        assert (np.diff(self.submit_s) >= 0).all(), "jobs are in order of submission"

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def num_days(self) -> int:
        """Days from 0 to the day of the last job, that one included; 0 without jobs."""
        return math.floor(self.submit_s[-1] / DAY_SECONDS) + 1 if len(self) else 0

    def window(self, start_day: float, days: float) -> "JobLog":
        """Return the jobs of some days, their times counted from the start of the window.

        Args:
            start_day: days from 0; 1.5 is noon of the second day.
            days: length of the window, > 0.

        Raises:
            InputError: if the window is not one, or goes beyond the day of the last job.
        """
        if not (math.isfinite(days) and days > 0):
            raise InputError("days", f"{days!r}", "a number of days > 0")
        if not (math.isfinite(start_day) and start_day >= 0):
            raise InputError("start_day", f"{start_day!r}", "a number of days >= 0")
        # A horizon of slots may be longer than its days by a rounding.
        if start_day + days > self.num_days + 1e-9:
            raise InputError(
                "start_day",
                f"{start_day:g} and {days:g} days from there go beyond the log",
                f"a window within its {self.num_days} days",
            )
        start, end = start_day * DAY_SECONDS, (start_day + days) * DAY_SECONDS
        first, last = np.searchsorted(self.submit_s, [start, end]).tolist()
        return JobLog(
            self.source,
            self.submit_s[first:last] - start,
            self.gpus[first:last],
            self.duration_s[first:last],
            self.user[first:last],
        )

    def weeks(self, start_day: float, days: float) -> list["JobLog"]:
        """Return a window, and the same one of other weeks: those that follow, then those before.

        Each begins whole weeks from the first, so many that no two overlap, and lies within the
        log.

        Raises:
            InputError: as `window`.
        """
        first = self.window(start_day, days)
        step = 7 * math.ceil(days / 7)
        last = self.num_days - days + 1e-9
        after = np.arange(start_day + step, last, step)
        before = np.arange(start_day - step, -1e-9, -step)
        starts = np.maximum([*after, *before], 0.0)
        return [first, *(self.window(start, days) for start in starts.tolist())]

    def counts(self, slots: int, slot_seconds: float) -> IntArray:
        """Jobs submitted in each of the first slots: [slots]."""
        slot = np.floor(self.submit_s / slot_seconds).astype(np.int64)
        return np.bincount(slot[slot < slots], minlength=slots)


def make_log(
    source: str,
    submit_s: Sequence[float] | FloatArray,
    gpus: Sequence[float] | FloatArray,
    duration_s: Sequence[float] | FloatArray,
    user: Sequence[str],
    *,
    left_out: Mapping[str, int] | None = None,
    from_midnight: bool = True,
) -> JobLog:
    """Return a log of jobs in any order; those submitted at one time stay in theirs.

    Args:
        source, submit_s, gpus, duration_s, user, left_out: as in `JobLog`, times from any
            midnight.
        from_midnight: count from the midnight before the first job.
    """
    times = np.asarray(submit_s, dtype=np.float64)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if from_midnight and len(times):
        times = times - math.floor(times[0] / DAY_SECONDS) * DAY_SECONDS
    return JobLog(
        source,
        times,
        np.asarray(gpus, dtype=np.float64)[order],
        np.asarray(duration_s, dtype=np.float64)[order],
        tuple(user[index] for index in order.tolist()),
        {reason: count for reason, count in (left_out or {}).items() if count},
    )
