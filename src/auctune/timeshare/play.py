"""Bundles over recorded curves, a unit of time at a time.

In unit t a thread with share eta may learn eta N batches, whole ones; what is left of a batch is
kept for later. The loss of the unit is the mean over its batches; a unit without a batch has none.
A thread is done when that is at or under its threshold, or, with windows, when the mean over its
last N batches is. Nothing is drawn: the same allocator on the same curves comes to the same end.
"""

from collections.abc import Sequence

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.numerics.jit import kernel
from auctune.timeshare.allocator import (
    Allocator,
    BundleOutcome,
    InfeasibleSharesError,
    Observation,
    count_switches,
)
from auctune.timeshare.thread import LearningThread, LossCurve, bundle_arrays, unit_rates


@kernel
def loss_sum(ends: Floats, totals: Floats, losses: Floats, batches: float) -> float:
    """Sum of losses over the first batches of a curve.

    Args:
        ends, losses: [i] of the bins.
        totals: [i + 1] sums at their ends, 0 first.
        batches: how many.
    """
    at = np.searchsorted(ends, batches)
    if at == len(ends):
        return float(totals[at] + (batches - ends[at - 1]) * losses[at - 1])
    before = ends[at - 1] if at > 0 else 0.0
    return float(totals[at] + (batches - before) * losses[at])


@kernel
def learn(
    eta: Floats,
    rate: Floats,
    windows: Floats,
    ends: Floats,
    totals: Floats,
    losses: Floats,
    starts: Ints,
    credit: Floats,
    samples: Floats,
    loss: Floats,
    judged: Floats,
    fresh: Bools,
) -> None:
    """One unit of time of all threads.

    Args:
        eta, rate: [k] shares and N.
        windows: [k] batches over whose mean success is judged; 0: those of the unit.
        ends, totals, losses: bins of all curves, one after another; each curve has one more of
            each than bins, so that its totals fit, and the last end and loss are not read.
        starts: [k + 1] where each thread's curve begins.
        credit: [k] parts of a batch paid for; written.
        samples, loss, fresh: [k] as of `Observation`; written.
        judged: [k] the mean that success is judged on; written.
    """
    for k in range(len(eta)):
        credit[k] += eta[k] * rate[k]
        # A share that is meant to buy a whole batch misses it by rounding.
        batches = np.floor(credit[k] + 1e-9)
        fresh[k] = batches >= 1.0
        loss[k] = judged[k] = np.nan
        if fresh[k]:
            credit[k] = max(0.0, credit[k] - batches)
            first, last = starts[k], starts[k + 1]
            end, total, value = ends[first : last - 1], totals[first:last], losses[first : last - 1]
            after = loss_sum(end, total, value, samples[k] + batches)
            loss[k] = (after - loss_sum(end, total, value, samples[k])) / batches
            samples[k] += batches
            judged[k] = loss[k]
            if windows[k] > 0.0:
                length = min(windows[k], samples[k])
                judged[k] = (after - loss_sum(end, total, value, samples[k] - length)) / length


def play(
    allocator: Allocator,
    threads: Sequence[LearningThread],
    curves: Sequence[LossCurve],
    batches_per_unit: Sequence[float],
    windows: Sequence[float] | None = None,
) -> BundleOutcome:
    """Run a bundle by an allocator, until all threads are done or past their deadlines.

    Args:
        allocator: how to share.
        threads: of the bundle.
        curves: the loss of each thread; beyond its end a curve stays what it was.
        batches_per_unit: N > 0 of each thread.
        windows: whole batches of each thread, over whose mean success is judged, of fewer all;
            None: the batches of a unit, as a pool that trains judges it.

    Raises:
        InputError: if there is not one curve, N and window for each thread, or an N is not above 0,
            or a window is not a whole number >= 1.
        InfeasibleSharesError: if the allocator gives away what there is not.
    """
    bundle = bundle_arrays(threads)
    rate = unit_rates(threads, curves, batches_per_unit)
    judged = np.zeros(len(rate)) if windows is None else np.array(windows, dtype=np.float64)
    if windows is not None and not (
        len(judged) == len(rate) and (judged >= 1).all() and (judged == np.floor(judged)).all()
    ):
        raise InputError("windows", f"{judged.tolist()}", "a whole number >= 1 for each thread")
    game = _Replay(bundle.threshold, curves, rate, judged)
    run = allocator.start(threads)
    for time in range(int(bundle.deadline.max())):
        if (game.done | (bundle.deadline <= time)).all():
            break
        shares = run.allocate(game.observe(time)).eta
        active = (bundle.start <= time) & (bundle.deadline > time) & ~game.done
        if shares.shape != active.shape or shares[~active].any():
            raise InfeasibleSharesError(
                f"unit {time}: {allocator.name} gives shares to threads that are not active"
            )
        game.run_unit(time, shares)
    return game.close()


class _Replay:
    """Where all threads stand."""

    def __init__(
        self, threshold: Floats, curves: Sequence[LossCurve], rate: Floats, windows: Floats
    ) -> None:
        num = len(rate)
        self._threshold, self._rate, self._windows = threshold, rate, windows
        sizes = [len(curve.total) for curve in curves]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._ends = np.concatenate([np.append(curve.batches, np.inf) for curve in curves])
        self._losses = np.concatenate([np.append(curve.loss, np.nan) for curve in curves])
        self._totals = np.concatenate([curve.total for curve in curves])
        self._credit, self._samples = np.zeros(num), np.zeros(num)
        self._loss, self._received = np.full(num, np.nan), np.zeros(num)
        self._judged = np.full(num, np.nan)
        self._fresh = np.zeros(num, dtype=np.bool_)
        self.done, self._finish = np.zeros(num, dtype=np.bool_), np.full(num, np.inf)
        self._shares: list[Floats] = []
        self._unit_losses: list[Floats] = []
        self._learned: list[Bools] = []

    def observe(self, time: int) -> Observation:
        return Observation(
            time=time,
            samples=self._samples.copy(),
            batches_per_unit=self._rate,
            loss=self._loss.copy(),
            fresh=self._fresh.copy(),
            done=self.done.copy(),
            received=self._received.copy(),
        )

    def run_unit(self, time: int, eta: Floats) -> None:
        learn(
            eta,
            self._rate,
            self._windows,
            self._ends,
            self._totals,
            self._losses,
            self._starts,
            self._credit,
            self._samples,
            self._loss,
            self._judged,
            self._fresh,
        )
        self._received += eta
        reached = self._fresh & (self._judged <= self._threshold) & ~self.done
        self.done |= reached
        self._finish[reached] = time + 1.0
        self._learned.append(self._fresh.copy())
        self._shares.append(eta)
        self._unit_losses.append(self._loss.copy())

    def close(self) -> BundleOutcome:
        shape = (len(self._shares), len(self._rate))
        return BundleOutcome(
            done=self.done,
            finish=self._finish,
            samples=self._samples,
            shares=np.array(self._shares).reshape(shape),
            losses=np.array(self._unit_losses).reshape(shape),
            switches=count_switches(np.array(self._learned).reshape(shape)),
        )
