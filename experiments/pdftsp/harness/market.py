"""The markets of a figure: a workload by its settings, drawn for each seed, and the day before it.

A made-up day and the one before it differ in what is drawn alone. With a job log seed i takes the
i-th of the days from `start_day` on that have jobs, and the day before is the log's own. A day is
the superposition of the same weekday of as many weeks as the log's mean needs to reach the rate,
and all days are thinned by one factor, so that quiet and busy days stay so. Days of one weekday
share jobs, so they are one block: intervals take the means of blocks as independent, not days.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

from auctune.domain import InputError, Task
from auctune.domain.money import STEP
from auctune.sim.instance import Instance
from auctune.sim.traces import JobLog, read_job_log
from auctune.sim.traces.job_log import DAY_SECONDS
from auctune.sim.workloads.build import build_workload

# Seeds of the days before: far from those of the days that are played.
_BEFORE = 1_000_000
_FILES = ("energy", "device")


@dataclass(frozen=True, slots=True)
class Trace:
    """A job log's arrivals.

    Attributes:
        path: of the log.
        start_day: days of the log before the first that is played; 1 at least.
        days: of the log from `start_day` on that are played and count for its mean; None: all.
    """

    path: Path
    start_day: int = 1
    days: int | None = None

    def __post_init__(self) -> None:
        if self.start_day < 1:
            raise InputError("--start-day", f"{self.start_day}", "1 or more: a day comes before it")
        if self.days is not None and self.days < 1:
            raise InputError("--days", f"{self.days}", "a number of days >= 1")


@dataclass(frozen=True, slots=True)
class Setting:
    """A market of a figure, but for its seed.

    Attributes:
        label: as the figure's axis shows it.
        workload: settings of `auctune workload`, (key, value) in order of the key.
        trace: where arrivals come from; none: the workload says.
        before: what was otherwise the day before, likewise; none: nobody knows of that day.
        afternoon: factor of all bids from noon on.
    """

    label: str
    workload: tuple[tuple[str, str], ...]
    trace: Trace | None = None
    before: tuple[tuple[str, str], ...] | None = ()
    afternoon: float = 1.0

    def key(self) -> dict[str, object]:
        """What the market and the day before depend on but for their seed."""
        before = None if self.before is None else dict(self.before)
        return {**self.market_key(), "before": before}

    def market_key(self) -> dict[str, object]:
        """What the market depends on but for its seed, files by their contents."""
        contents = {
            key: sha256(Path(value).read_bytes()).hexdigest()
            for key, value in self.workload
            if key.split(".")[0] in _FILES
        }
        trace = None
        if self.trace is not None:
            digest = sha256(_bytes(self.trace.path)).hexdigest()
            trace = [digest, self.trace.start_day, self.trace.days]
        return {
            "workload": dict(self.workload),
            "files": contents,
            "trace": trace,
            "afternoon": self.afternoon,
        }


@dataclass(frozen=True, slots=True)
class Day:
    """A market, and the bids of the day before."""

    market: Instance
    before: tuple[Task, ...]


def setting(
    label: str, changes: Mapping[str, str] | None = None, trace: Trace | None = None
) -> Setting:
    """A market with the defaults of `auctune workload` but for `changes`."""
    return Setting(label, tuple(sorted((changes or {}).items())), trace)


def changed(settings: Sequence[Setting], changes: Mapping[str, str]) -> list[Setting]:
    """The same markets with other settings; what a figure varies itself stays."""
    return [
        replace(one, workload=tuple(sorted({**changes, **dict(one.workload)}.items())))
        for one in settings
    ]


def draw(wanted: Setting, seed: int) -> Day:
    """The market of this seed.

    Raises:
        InputError: for settings that are none, or a log without enough days.
    """
    workload = dict(wanted.workload)
    if wanted.trace is None:
        days = [
            build_workload({**workload, "seed": str(seed)}),
            build_workload({**workload, **dict(wanted.before or ()), "seed": str(seed + _BEFORE)}),
        ]
    else:
        log, trace = _log(wanted.trace.path), wanted.trace
        day = _days_with_jobs(log, trace)[seed]
        rate = float(workload.pop("rate", "50"))
        slots = DAY_SECONDS / float(workload.get("slot_seconds", "600"))
        days = []
        for start, drawn in ((day, seed), (day - 1, seed + _BEFORE)):
            own = {"start_day": str(start), "rate": repr(_rate(log, trace, start, rate, slots))}
            days.append(build_workload({**workload, **own, "seed": str(drawn)}, log))
    before = () if wanted.before is None else days[1].tasks
    return Day(_with_afternoon(days[0], wanted.afternoon), before)


def _with_afternoon(day: Instance, factor: float) -> Instance:
    """The same day, its bids from noon on so many times as high."""
    if factor == 1.0:
        return day
    noon = day.cluster.slots // 2
    exact = Decimal(str(factor))

    def changed_bid(task: Task) -> Task:
        return replace(task, bid=(task.bid * exact).quantize(STEP))

    tasks = [changed_bid(task) if task.arrival >= noon else task for task in day.tasks]
    return replace(day, tasks=tuple(tasks))


def num_days(trace: Trace) -> int:
    """How many seeds a log has days for."""
    return len(_days_with_jobs(_log(trace.path), trace))


def block(wanted: Setting, seed: int) -> int:
    """Return which days the seed's day shares jobs with: its weekday in a log, else itself."""
    if wanted.trace is None:
        return seed
    return _days_with_jobs(_log(wanted.trace.path), wanted.trace)[seed] % 7


def _days_with_jobs(log: JobLog, trace: Trace) -> list[int]:
    """Days of the window that have jobs, and had some the day before."""
    end = _last_day(log, trace)
    jobs = {day: len(log.window(day, 1)) for day in range(trace.start_day - 1, end)}
    days = [day for day in range(trace.start_day, end) if jobs[day] and jobs[day - 1]]
    if not days:
        raise InputError(
            f"--trace {trace.path}",
            f"has no day with jobs, and with jobs the day before, from day {trace.start_day} on",
            f"another --start-day of its {log.num_days:g} days",
        )
    return days


def _rate(log: JobLog, trace: Trace, start: int, rate: float, slots: float) -> float:
    """Return the bids a slot of a day, if the log's mean day of `slots` is to bring `rate`."""
    days = _last_day(log, trace) - trace.start_day
    mean = len(log.window(trace.start_day, days)) / days
    weeks = log.weeks(start, 1)[: math.ceil(rate * slots / mean)]
    return rate * sum(len(week) for week in weeks) / len(weeks) / mean


def _last_day(log: JobLog, trace: Trace) -> int:
    days = log.num_days if trace.days is None else trace.start_day + trace.days
    return min(days, int(log.num_days))


@functools.lru_cache(maxsize=4)
def _log(path: Path) -> JobLog:
    return read_job_log(path)


def _bytes(path: Path) -> bytes:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return b"".join(file.read_bytes() for file in files)
