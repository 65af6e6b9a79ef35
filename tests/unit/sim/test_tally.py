"""A running sum is math.fsum of its terms, in any order."""

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from auctune.sim.tally import ExactSum

terms = st.lists(st.floats(-1e12, 1e12, allow_nan=False), max_size=60)


def total(values: list[float]) -> ExactSum:
    running = ExactSum()
    for value in values:
        running.add(value)
    return running


@given(terms, st.randoms())
def test_it_is_rounded_once(values: list[float], random: Random) -> None:
    shuffled = sorted(values, key=lambda _: random.random())
    assert total(values).value() == total(shuffled).value() == math.fsum(values)


@given(terms)
def test_what_is_taken_out_again_leaves_nothing(values: list[float]) -> None:
    assert total(values + [-value for value in reversed(values)]).value() == 0.0


def test_ten_tenths_are_one() -> None:
    assert total([0.1] * 10).value() == 1.0
    assert total([1e16, 1.0, -1e16]).value() == 1.0
