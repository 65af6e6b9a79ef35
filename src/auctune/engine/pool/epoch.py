"""Epoch of a pool: quanta in which the same jobs share it, under one run of the allocator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from auctune.domain.checks import check_positive
from auctune.engine.messages.pool import SliceResult, TimeSlice, TrainQuantum
from auctune.engine.pool.clock import Clock, Quantum
from auctune.engine.pool.device import PoolDevice
from auctune.engine.pool.events import JobOutlook, JobStatus, Member, QuantumTrained
from auctune.numerics.arrays import Floats, Ints
from auctune.timeshare.allocator import Allocator, InfeasibleSharesError, Observation
from auctune.timeshare.estimators.estimator import Estimator
from auctune.timeshare.thread import bundle_arrays

# A job that is slower than its rate says ends its time slice after this many times its share.
SLICE_SLACK = 1.5

MAX_STEP_QUANTA = 4.0
"""Quanta for which a batch may hold the pool, which checks deadlines and cancellations between
batches. A batch that by the profile takes a quantum is admitted: this leaves room for its error."""

MAX_OVERRUN_QUANTA = 1.0 + MAX_STEP_QUANTA
"""Quanta that one may last: it is overrun by one batch at most."""

# A share that is to buy a whole batch misses it by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PoolParams:
    """Settings of a pool.

    Attributes:
        allocator: how jobs share.
        estimator: forecasts when each will be done.
        quantum_seconds: of real time; None if a quantum lasts as long as its batches take, and
            every job states how many they are. Then a run has the same end each time.
        memory_bytes: of the device that all jobs may take together, or None for all.
        cpu_threads: of torch.
        saved_every: seconds between checkpoints of a job.
    """

    allocator: Allocator
    estimator: Estimator
    quantum_seconds: float | None = None
    memory_bytes: int | None = None
    cpu_threads: int = 1
    saved_every: float = 30.0

    def __post_init__(self) -> None:
        if self.quantum_seconds is not None:
            check_positive(self.quantum_seconds, "quantum_seconds", "a number > 0")
        if self.memory_bytes is not None:
            check_positive(self.memory_bytes, "memory", "a number of bytes > 0")


class Epoch:
    """Trains quanta of a fixed set of jobs.

    Args:
        params: settings of the pool.
        device: on which the jobs are loaded.
        clock: of the pool.
        members: the jobs of the epoch, brought to where the log says.
        quanta: recorded quanta, which the allocator sees again; those without any of the jobs are
            left out.
        keeps_best: whether a checkpoint of each job's best quantum is kept.

    Attributes:
        state: of the jobs.
        too_slow: jobs whose batch was stopped in the newest quantum, with the reason.
    """

    def __init__(
        self,
        params: PoolParams,
        device: PoolDevice,
        clock: Clock,
        members: Sequence[Member],
        quanta: Sequence[QuantumTrained],
        keeps_best: bool,
    ) -> None:
        self._params, self._device, self._clock = params, device, clock
        self._members, self._keeps_best = members, keeps_best
        self.state = JobSetState(members)
        self.too_slow: dict[str, str] = {}
        self._threads = [member.thread for member in members]
        self._allocator = params.allocator.start(self._threads)
        self._bank = params.estimator.start_bank(len(members))
        for quantum in quanta:
            if not set(self.state.names).isdisjoint(quantum.jobs):
                self._allocator.allocate(self.state.observe(quantum.time))
                self.apply(quantum)

    def next_quantum(self, last: int) -> Quantum | None:
        """Return the quantum after `last` that begins now, or None if no job can train again."""
        earliest = max(last + 1, int(self.state.bundle.start.min()))
        if self.state.is_over(earliest):
            return None
        quantum = self._clock.next_quantum(earliest)
        return None if self.state.is_over(quantum.time) else quantum

    def train(self, quantum: Quantum) -> QuantumTrained:
        """Train a quantum; it counts once it is recorded and applied.

        Raises:
            InfeasibleSharesError: if the allocator gives shares to jobs that are not active.
            JobFailedError: if the code of a job raises an error.
        """
        state, clock = self.state, self._clock
        shares = self._allocator.allocate(state.observe(quantum.time)).eta
        self._check(quantum.time, shares)
        quantum = self._without_swaps(quantum, shares)
        due = state.due(shares, quantum.span)
        fitted = clock.fit(quantum, due, state.rates)
        target = whole_batches(due, fitted, state.rates, quantum.span)
        trained = self._device.train(
            TrainQuantum(
                quantum.time,
                clock.remaining_seconds(quantum),
                self._slices(target, np.maximum(fitted, target)),
            )
        )
        self.too_slow = {name: one.too_slow for name, one in trained.items() if one.too_slow}
        slices = [
            trained.get(name, SliceResult(read=read))
            for name, read in zip(state.names, state.read, strict=True)
        ]
        batches, seconds = [one.batches for one in slices], [one.seconds for one in slices]
        rates = clock.update_rates(
            state.rates, np.array(batches, dtype=np.float64), np.array(seconds), state.samples == 0
        )
        return QuantumTrained(
            time=quantum.time,
            moment=clock.moment(),
            span=quantum.span,
            jobs=list(state.names),
            shares=shares.tolist(),
            batches=batches,
            # As the log has them: JSON has no infinity.
            losses=[one.loss if math.isfinite(one.loss) else math.nan for one in slices],
            seconds=seconds,
            rates=rates.tolist(),
            read=[one.read for one in slices],
            accuracies=[one.accuracy for one in slices],
        )

    def apply(self, quantum: QuantumTrained) -> list[str]:
        """Apply a recorded quantum; return the jobs that reached their thresholds in it."""
        reached = self.state.apply(quantum)
        self._bank.observe(self.state.samples, self.state.losses, self.state.batches > 0)
        return [self.state.names[index] for index in reached]

    def outlooks(self, time: int) -> list[JobOutlook]:
        """Return the outlook of each job after quantum `time`, the newest."""
        thresholds = np.array([thread.threshold for thread in self._threads])
        needs = self._bank.needs(thresholds).batches
        return [self._outlook(index, time, float(need)) for index, need in enumerate(needs)]

    def _check(self, time: int, shares: Floats) -> None:
        bundle = self.state.bundle
        active = (bundle.start <= time) & (bundle.deadline > time) & ~self.state.done
        if shares.shape != active.shape or shares[~active].any():
            name = self._params.allocator.name
            raise InfeasibleSharesError(
                f"unit {time}: {name} gives shares to threads that are not active"
            )

    def _without_swaps(self, quantum: Quantum, shares: Floats) -> Quantum:
        """Return the quantum less the time that swapping jobs will take."""
        seconds = self._params.quantum_seconds
        if seconds is None:
            return quantum
        names = [self.state.names[index] for index in np.flatnonzero(shares)]
        cost = self._device.memory.swap_seconds(names)
        return Quantum(quantum.time, max(0.0, quantum.span - cost / seconds))

    def _slices(self, target: Ints, expected: Floats) -> list[TimeSlice]:
        """Return the time slices of a quantum.

        The job with the most carry-over is first, so that it is not always the same for which time
        runs out.

        Args:
            target: [k] batches.
            expected: [k] batches, with a fraction, whose time a slice may take.
        """
        state, seconds = self.state, self._params.quantum_seconds
        behind, quanta = state.carry_over / state.rates, expected / state.rates
        return [
            TimeSlice(
                job=state.names[index],
                batches=int(target[index]),
                max_seconds=math.inf if seconds is None else SLICE_SLACK * quanta[index] * seconds,
                best=self._members[index].best_bounds if self._keeps_best else None,
            )
            for index in sorted(np.flatnonzero(target).tolist(), key=lambda index: -behind[index])
        ]

    def _outlook(self, index: int, time: int, need: float) -> JobOutlook:
        state, thread = self.state, self._threads[index]
        finish = self._finish(index, time, need)
        loss = float(state.last_losses[index]) if state.samples[index] else None
        return JobOutlook(
            id=thread.id,
            share=float(state.shares[index]),
            batches=int(state.samples[index]),
            loss=loss,
            threshold=thread.threshold,
            deadline=thread.deadline,
            finish=finish,
            status=self._status(index, time, loss, finish, need),
        )

    def _finish(self, index: int, time: int, need: float) -> float | None:
        if self.state.done[index]:
            return float(self.state.finish[index])
        speed = float(self.state.shares[index] * self.state.rates[index])
        if not speed > 0 or math.isinf(need):
            return None
        return time + 1 + need / speed

    def _status(
        self, index: int, time: int, loss: float | None, finish: float | None, need: float
    ) -> JobStatus:
        thread = self._threads[index]
        if self.state.done[index]:
            return JobStatus.DONE
        if time + 1 >= thread.deadline:
            return JobStatus.MISSED
        if loss is None:
            return JobStatus.NOT_STARTED if time < thread.start else JobStatus.TRAINING
        if not math.isfinite(loss):
            return JobStatus.DIVERGED
        if math.isinf(need):
            return JobStatus.UNREACHABLE
        if finish is None:
            return JobStatus.NO_SHARE
        return JobStatus.IN_TIME if finish <= thread.deadline else JobStatus.LATE


def whole_batches(due: Floats, fitted: Floats, rates: Floats, span: float) -> Ints:
    """Return [k] the batches to train in a quantum.

    Whole ones of what fits in proportion; then, one by one, those of the job that is most behind
    for which there is still time. If no batch fits, that job trains one all the same: otherwise one
    whose batches were slow for a while would never be trained, and its rate measured, again.

    Args:
        due: [k] batches, with a fraction, that shares and carry-over give.
        fitted: [k] how much of them the quantum has time for.
        rates: [k] batches per quantum.
        span: of the quantum.
    """
    whole = np.floor(fitted + _ROUNDING).astype(np.int64)
    left = span - float((whole / rates).sum())
    while True:
        is_possible = due - whole >= 1.0 - _ROUNDING
        if whole.any():
            is_possible &= 1.0 / rates <= left + _ROUNDING
        if not is_possible.any():
            return whole
        index = int(np.where(is_possible, (due - whole) / rates, -1.0).argmax())
        whole[index] += 1
        left -= 1.0 / float(rates[index])


# Batches that a job may always carry over: one of a small share must get to a whole one.
MAX_CARRY_OVER = 2.0


_T = TypeVar("_T", int, float)


class JobSetState:
    """Jobs that share a pool, as the arrays that allocators see.

    In a quantum in which one of them was not a member it has no share, no batch and no loss, and
    its rate stays: allocators and estimators see that it did not train.

    Args:
        members: the jobs.

    Attributes:
        names: ids of the jobs.
        bundle: what is fixed of them.
        rates: [k] estimates of batches per quantum.
        samples, received: [k] batches trained, shares received.
        carry_over: [k] batches, with a fraction, that are due from earlier quanta.
        done, finish: [k] whether and by which quantum's end the threshold was reached.
        shares, batches, losses, seconds: [k] of the newest quantum.
        last_losses: [k] of the last quantum in which each trained.
        read: [k] rows and tokens that each has trained.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        num = len(members)
        threads = [member.thread for member in members]
        self.names = [thread.id for thread in threads]
        self.bundle = bundle_arrays(threads)
        self.rates = np.array([member.rate for member in members], dtype=np.float64)
        self.samples, self.received, self.carry_over = np.zeros(num), np.zeros(num), np.zeros(num)
        self.done, self.finish = np.zeros(num, dtype=np.bool_), np.full(num, np.inf)
        self.shares, self.seconds = np.zeros(num), np.zeros(num)
        self.batches = np.zeros(num, dtype=np.int64)
        self.losses, self.last_losses = np.full(num, np.nan), np.full(num, np.nan)
        self.read = [(0, 0)] * num

    def is_over(self, time: int) -> bool:
        """Return whether no job can train in that quantum or later."""
        return bool((self.done | (self.bundle.deadline <= time)).all())

    def observe(self, time: int) -> Observation:
        """Return what an allocator sees as a quantum begins."""
        return Observation(
            time=time,
            samples=self.samples.copy(),
            batches_per_unit=self.rates.copy(),
            loss=self.losses.copy(),
            fresh=self.batches > 0,
            done=self.done.copy(),
            received=self.received.copy(),
        )

    def due(self, shares: Floats, span: float) -> Floats:
        """Return [k] batches, with a fraction, that shares of a quantum and the carry-over give."""
        due: Floats = self.carry_over + shares * self.rates * span
        return due

    def apply(self, quantum: QuantumTrained) -> Ints:
        """Apply a quantum; return the places of jobs that reached their thresholds in it."""
        places = {name: place for place, name in enumerate(quantum.jobs)}
        rows = [places.get(name) for name in self.names]
        self.shares = np.array(_column(quantum.shares, rows, 0.0))
        self.batches = np.array(_column(quantum.batches, rows, 0), dtype=np.int64)
        self.losses = np.array(_column(quantum.losses, rows, math.nan))
        self.seconds = np.array(_column(quantum.seconds, rows, 0.0))
        granted = self.shares * self.rates * quantum.span
        # Limited, as the allocator may change its mind on what a quantum had no time for.
        self.carry_over = np.clip(
            self.carry_over + granted - self.batches, 0.0, np.maximum(granted, MAX_CARRY_OVER)
        )
        self.samples += self.batches
        self.received += self.shares
        trained = self.batches > 0
        self.last_losses[trained] = self.losses[trained]
        reached = trained & (self.losses <= self.bundle.threshold) & ~self.done
        self.done |= reached
        self.finish[reached] = quantum.time + 1.0
        for index, row in enumerate(rows):
            if row is not None:
                self.rates[index], self.read[index] = quantum.rates[row], quantum.read[row]
        return np.flatnonzero(reached)


def _column(values: Sequence[_T], rows: Sequence[int | None], missing: _T) -> list[_T]:
    return [missing if row is None else values[row] for row in rows]
