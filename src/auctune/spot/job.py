"""A job that rents by deadline: its throughput by GPUs, and what a change of GPUs costs.

There are two accounts of such a change:

- By total, Kong et al. (arXiv 2512.20967), eq. 2: the share of a slot left for work by all GPUs
  is mu_1 if there are more than in the slot before (start and reconfiguration), mu_2 if there are
  fewer (reconfiguration), 1 if their number stays. To replace a spot GPU by an on-demand one is
  free.
- By instance: each instance that is started does no work for a while, be it at the job's start,
  after a preemption or in place of one of the other kind; the others work on. A start that takes
  longer than a slot goes on in the next. The newest instances are given up first.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Literal, Protocol

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive


@dataclass(frozen=True, slots=True)
class Overhead:
    """The account by total: effective shares of a slot, 0 < mu1 <= mu2 <= 1.

    Attributes:
        mu1: after a start or a growth; the default is 3 minutes of 30 lost.
        mu2: after a shrinking.
    """

    mu1: float = 0.9
    mu2: float = 0.95

    def __post_init__(self) -> None:
        check_positive(self.mu1, "mu1", "a number > 0")
        check_positive(self.mu2, "mu2", "a number > 0")
        if self.mu1 > self.mu2:
            raise InputError("mu1", f"{self.mu1!r}", f"a number <= mu2 = {self.mu2!r}")
        if self.mu2 > 1:
            raise InputError("mu2", f"{self.mu2!r}", "a number <= 1")


# Of the ratio of two times, 180 s of 2700 s, that is given as a float.
_MAX_DENOMINATOR = 10_000


@dataclass(frozen=True, slots=True)
class InstanceStart:
    """The account by instance.

    Attributes:
        slots: from the start of an instance until it works; the default is 3 minutes of 30.
    """

    slots: float = 0.1

    def __post_init__(self) -> None:
        check_finite(self.slots, "slots", "a number >= 0")

    @property
    def exact(self) -> Fraction:
        """The ratio of seconds that `slots` was computed from: works of a slot lie on a grid."""
        return Fraction(self.slots).limit_denominator(_MAX_DENOMINATOR)


Changeover = Literal["by_instance", "by_total"]

# Of jobs whose account is not set: plans by instance go by pairs of counts.
MOST_GPUS_BY_INSTANCE = 32


def read_overhead(
    changeover: Changeover | None,
    n_max: int,
    start: float | None,
    mu1: float | None,
    mu2: float | None,
    *,
    start_key: str,
    default_start: float,
) -> Overhead | InstanceStart:
    """Return what a change of GPUs costs, from settings that may give values of one account.

    Args:
        changeover: the account; None: by instance, unless `mu1` or `mu2` is given, or there are
            so many GPUs and no `start` that plans by instance would be coarse.
        n_max: the most GPUs.
        start: slots until an instance works.
        mu1, mu2: see `Overhead`.
        start_key: the user's key of `start`, for errors.
        default_start: slots where `start` is None.

    Raises:
        InputError: naming the key that the account does not have.
    """
    shares = {key: mu for key, mu in (("mu1", mu1), ("mu2", mu2)) if mu is not None}
    first = next(iter(shares), "")
    if first and start is not None:
        expected = f"mu1 and mu2 (by total) or {start_key} (by instance)"
        raise InputError("", f"has both {first} and {start_key}", expected)
    if changeover == "by_instance" and first:
        raise InputError(first, "is given", 'changeover = "by_total" beside it')
    if changeover == "by_total" and start is not None:
        raise InputError(start_key, "is given", 'changeover = "by_instance" beside it')
    is_large = changeover is None and start is None and n_max > MOST_GPUS_BY_INSTANCE
    if changeover == "by_total" or first or is_large:
        return Overhead(**shares)
    return InstanceStart(default_start if start is None else start)


class Scaling(Protocol):
    """Work done in a whole slot by n GPUs."""

    def throughput(self, num_gpus: int) -> Fraction:
        """H(n), exactly as its decimals say, in units of work a slot; 0 for 0 GPUs."""
        ...

    def check_reaches(self, num_gpus: int) -> None:
        """Refuse a count of GPUs for which H is not defined.

        Raises:
            InputError: naming `scaling`.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """H(n) = a n + c.

    Attributes:
        a: work a slot that one more GPU adds.
        c: work a slot beside it; below zero where the first GPU gives less than a.
    """

    a: float = 1.0
    c: float = 0.0

    def __post_init__(self) -> None:
        check_finite(self.a, "a", "a number >= 0")
        if not (math.isfinite(self.c) and self.a + self.c > 0):
            raise InputError("c", f"{self.c!r}", "a number with a + c > 0")

    def throughput(self, num_gpus: int) -> Fraction:
        return num_gpus * as_fraction(self.a) + as_fraction(self.c) if num_gpus else Fraction(0)

    def check_reaches(self, num_gpus: int) -> None:
        """Any count will do."""


@dataclass(frozen=True, slots=True)
class TableScaling:
    """Throughput as it was measured.

    Attributes:
        table: H(1), H(2), ... in work a slot: never falling, and concave.
    """

    table: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.table:
            raise InputError("table", "is empty", "throughput of 1, 2, ... GPUs")
        for i, value in enumerate(self.table):
            check_positive(value, f"table[{i}]", "a number > 0")
        exact = [as_fraction(value) for value in self.table]
        rises = [after - before for before, after in pairwise(exact)]
        for i, rise in enumerate(rises):
            if rise < 0 or (i > 0 and rise > rises[i - 1]):
                raise InputError(
                    f"table[{i + 1}]",
                    f"{self.table[i + 1]!r} after {self.table[i]!r}",
                    "throughput that never falls and whose rises never grow",
                )

    def throughput(self, num_gpus: int) -> Fraction:
        return as_fraction(self.table[num_gpus - 1]) if num_gpus else Fraction(0)

    def check_reaches(self, num_gpus: int) -> None:
        if num_gpus > len(self.table):
            raise InputError(
                "scaling", f"a table of {len(self.table)} counts", f"one of {num_gpus}, n_max"
            )


def as_fraction(value: float) -> Fraction:
    """Return the number that a float's shortest decimal stands for: 0.9 is nine tenths."""
    return Fraction(repr(float(value)))


# The value of a job that names none, in on-demand GPU-slots for each unit of work.
DEFAULT_VALUE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """Workload, deadline and value of one job; Kong et al. (arXiv 2512.20967), section III.

    Attributes:
        workload: L, units of work.
        deadline: d, the soft deadline: the job is worth all its value by the end of slot d - 1.
        hard_factor: g; from slot g * d on the job is worth nothing.
        value: v, in units of the on-demand price; by default 1.5 L.
        n_min: the least GPUs that hold the job, when it runs at all.
        n_max: the most that it can use.
        scaling: H(n).
        overhead: what a change of GPUs costs: the account by total or by instance.
    """

    workload: float
    deadline: int
    hard_factor: float = 1.5
    value: float = math.nan
    n_min: int = 1
    n_max: int = 16
    scaling: Scaling = field(default_factory=LinearScaling)
    overhead: Overhead | InstanceStart = field(default_factory=Overhead)

    def __post_init__(self) -> None:
        check_positive(self.workload, "workload", "a number > 0")
        if math.isnan(self.value):
            object.__setattr__(self, "value", DEFAULT_VALUE * self.workload)
        check_finite(self.value, "value", "a number >= 0")
        if self.deadline < 1:
            raise InputError("deadline", f"{self.deadline!r}", "a whole number of slots >= 1")
        if not (math.isfinite(self.hard_factor) and self.hard_factor >= 1):
            raise InputError("hard_factor", f"{self.hard_factor!r}", "a number >= 1")
        check_count(self.n_min, "n_min", 1)
        if self.n_max < self.n_min:
            raise InputError("n_max", f"{self.n_max!r}", f"a whole number >= n_min = {self.n_min}")
        self.scaling.check_reaches(self.n_max)
        self._check_starts()

    def _check_starts(self) -> None:
        """Refuse starts that last into other slots where what they cost depends on those."""
        overhead, scaling = self.overhead, self.scaling
        if not isinstance(overhead, InstanceStart) or overhead.slots <= 1 or self.n_max == 1:
            return
        one = scaling.throughput(1)
        if self.n_min > 1 or any(
            scaling.throughput(n) != n * one for n in range(1, self.n_max + 1)
        ):
            expected = "at most 1, or n_min = 1 and work that is proportional to the GPUs"
            raise InputError("overhead", f"a start of {overhead.slots:g} slots", expected)

    def effective_share(self, held: tuple[int, int], last: tuple[int, int]) -> float:
        """Return the share of its work without overhead that a slot does.

        Args:
            held, last: on-demand and spot GPUs of the slot, more than none, and of the one before;
                what starts in the slot works at its end, and all of `last` works.
        """
        count, before, overhead = sum(held), sum(last), self.overhead
        if isinstance(overhead, InstanceStart):
            kept = sum(map(min, held, last))
            works = self.scaling.throughput(kept) if kept >= self.n_min else Fraction(0)
            return float(1 - overhead.exact * (1 - works / self.scaling.throughput(count)))
        if count == before:
            return 1.0
        return overhead.mu1 if count > before else overhead.mu2

    @property
    def hard_deadline(self) -> float:
        return self.hard_factor * self.deadline
