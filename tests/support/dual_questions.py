"""What one task is asked by the kernels of the dual's answers, drawn by hypothesis.

Weights, speeds and work often lie on coarse grids: zeros, ties and exact fits are where a search
for the least cost goes wrong.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from auctune.auction.dual.problem import (
    AggregateDemand,
    Buffers,
    Window,
    make_buffers,
    price_starts,
)
from auctune.numerics.arrays import FIT, Floats
from support.dual_oracle import least_cost
from support.kernels import Kernel, plain

TIMES = 2.5
"""Tasks of the kind asked: a number that nothing else is."""

MEMORY_GB = 0.7


@dataclass(frozen=True)
class Question:
    """One task at given weights of cells.

    Attributes:
        window: its slots.
        weight: [T, K] cost of a cell.
        speed: [K] samples of a cell, 0 for a type that cannot run it.
        work: samples.
        bid: money.
        quotes: (price, delay) of each vendor, one at least.
    """

    window: Window
    weight: Floats
    speed: Floats
    work: float
    bid: float
    quotes: tuple[tuple[float, int], ...]

    @property
    def starts(self) -> list[tuple[float, int]]:
        """Price and first slot of each vendor; after the deadline if it is too slow."""
        window = self.window
        return [
            (price, min(window.last + 1, window.arrival + delay)) for price, delay in self.quotes
        ]

    @property
    def least_cost(self) -> float:
        """Of all vendors and schedules; infinite where there is none."""
        end = self.window.last + 1
        return min(
            price + least_cost(self.weight[start:end], self.speed, self.work)
            for price, start in self.starts
        )

    def buffers(self) -> Buffers:
        """Room, with weights and prices of starts filled in and rubbish elsewhere."""
        buffers = make_buffers(*self.weight.shape)
        for buffer in buffers:
            buffer.fill(-7)
        rows = slice(self.window.begin, self.window.last + 1)
        buffers.weight[rows] = np.where(self.speed > 0, self.weight[rows], np.inf)
        prices = np.array([price for price, _ in self.quotes])
        delays = np.array([delay for _, delay in self.quotes], dtype=np.int64)
        price_starts(*self.window, prices, delays, buffers.start_price)
        return buffers

    def nothing_taken(self) -> AggregateDemand:
        """Zeros to add cells to."""
        zeros = np.zeros_like(self.weight)
        return AggregateDemand(zeros, zeros.copy(), TIMES, MEMORY_GB)


def ask(kernel: Kernel, question: Question) -> tuple[float, AggregateDemand]:
    """What a kernel says that the task would gain, and the cells that it took."""
    taken = question.nothing_taken()
    needed = question.work * (1 - FIT)
    asked = question.window, question.speed, needed, question.bid, question.buffers(), taken
    return question.bid - kernel(*asked), taken


def check_cells(question: Question, gain: float, taken: AggregateDemand) -> None:
    """What was taken is one schedule whose cost leaves this gain, and nothing where it is 0."""
    if gain == 0.0:
        assert not taken.samples.any()
        assert not taken.gigabytes.any()
        return
    is_taken = taken.gigabytes > 0
    np.testing.assert_allclose(taken.gigabytes, is_taken * TIMES * MEMORY_GB)
    np.testing.assert_allclose(taken.samples, is_taken * TIMES * question.speed)
    assert is_taken.sum(axis=1).max() == 1
    assert taken.samples.sum() / TIMES >= question.work * (1 - 2e-9)
    slots = np.flatnonzero(is_taken.any(axis=1))
    assert slots[-1] <= question.window.last
    price = min(price for price, start in question.starts if start <= slots[0])
    assert question.bid - price - question.weight[is_taken].sum() == pytest.approx(gain, abs=1e-9)


def both_ways(kernel: Kernel) -> list[Kernel]:
    """A kernel as it is compiled and as plain Python."""
    return [kernel, plain(kernel)]


_coarse = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5])
_speeds = st.one_of(st.sampled_from([0.1, 1.0, 2.0, 3.0]), st.floats(0.3, 4.0))


@st.composite
def questions(draw: st.DrawFn, *, num_able: int, num_types: int, max_slots: int) -> Question:
    """A task that `num_able` of `num_types` node types can run, mostly in several slots."""
    num_slots = max_slots + 1
    span = draw(st.sampled_from(range(max_slots, 0, -1)))
    arrival = draw(st.integers(0, num_slots - span))
    # One vendor at least is quick enough.
    delays = [draw(st.integers(0, span - 1)), *draw(st.lists(st.integers(0, span), max_size=2))]
    quotes = draw(st.permutations([(draw(_coarse), delay) for delay in delays]))
    able = draw(st.permutations(range(num_types)))[:num_able]
    speed = np.zeros(num_types)
    speed[able] = [draw(_speeds) for _ in able]
    num_cells = num_slots * num_types
    prices = draw(st.sampled_from([_coarse, st.sampled_from([0.5, 1.0]), st.floats(0.0, 2.0)]))
    cells = draw(st.lists(prices, min_size=num_cells, max_size=num_cells))
    # Whole cells of a type, which fit exactly or nearly, or anything about that.
    whole = float(speed[draw(st.sampled_from(able))]) * draw(st.integers(1, span))
    return Question(
        Window(arrival, arrival + min(delays), arrival + span - 1),
        np.array(cells).reshape(num_slots, num_types),
        speed,
        whole * draw(st.sampled_from([1.0, 1.0, 0.9, 1.1, 0.55])),
        draw(st.one_of(st.just(30.0), st.floats(0.0, 12.0), _coarse)),
        tuple(quotes),
    )
