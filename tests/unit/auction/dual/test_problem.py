"""The small kernels that all answers share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.auction.dual.problem import keep_least, price_starts
from support.dual_questions import both_ways

Kernel = Callable[..., Any]

amounts = st.integers(0, 5).map(lambda i: i / 2)


@pytest.mark.parametrize("kernel", both_ways(keep_least))
@given(seen=st.lists(amounts, min_size=1, max_size=9), most=st.integers(1, 5))
def test_the_least_numbers_are_kept_in_order(kernel: Kernel, seen: list[float], most: int) -> None:
    least, size = np.full(6, -1.0), 0
    for w in seen:
        size = kernel(least, size, most, w)
    assert least[:size].tolist() == sorted(seen)[:most]
    assert (least[size:] == -1.0).all()


@pytest.mark.parametrize("kernel", both_ways(price_starts))
@given(quotes=st.lists(st.tuples(amounts, st.integers(0, 9)), min_size=1, max_size=4))
def test_a_start_has_the_price_of_the_cheapest_vendor_done_by_then(
    kernel: Kernel, quotes: list[tuple[float, int]]
) -> None:
    arrival, last = 1, 6
    begin = arrival + min(delay for _, delay in quotes)
    price = np.full(9, -1.0)
    kernel(
        *(arrival, begin, last),
        np.array([price for price, _ in quotes]),
        np.array([delay for _, delay in quotes], dtype=np.int64),
        price,
    )
    for slot in range(begin, last + 1):
        # Who starts here needs a vendor done by now; vendors done earlier are listed earlier.
        done = [amount for amount, delay in quotes if arrival + delay <= slot]
        assert price[begin : slot + 1].min() == min(done)
        if price[slot] < np.inf:
            assert (price[slot], slot - arrival) in [(amount, delay) for amount, delay in quotes]
    assert (price[:begin] == -1.0).all()
    assert (price[last + 1 :] == -1.0).all()
