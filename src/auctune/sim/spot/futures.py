"""What may come after a past: stretches of that past which began as the present stands.

Of all moments s in the past with as many slots after them as are asked for, a third is kept: those
whose count A_s is nearest to the present one, of equals those nearest in price, then the latest.
One is drawn, and what followed it follows now: counts as they were, prices by their changes,

    A_{t+h} = A_{s+h},    p_{t+h} = max(0, p_t + p_{s+h} - p_s)

(resampling of analogues; Lall and Sharma, "A nearest neighbor bootstrap for resampling hydrologic
time series", Water Resources Research 32(3), 1996). How price and count move together, and how long
either stays, is thereby as it was. A market that has become better or worse than it mostly was is
seen too dark or too bright until its past has more of it.
"""

import numpy as np

from auctune.domain import InputError
from auctune.numerics.rng import stream
from auctune.spot.arrays import Ints
from auctune.spot.market import SpotMarket

# Of the moments that there are: few enough to be like the present, enough to differ.
_KEPT = 1 / 3
_LEAST = 8


def draw_futures(
    past: SpotMarket, num_slots: int, num_futures: int, *, seed: int = 0
) -> list[SpotMarket]:
    """Markets that begin as `past` and go on in ways that it has seen.

    Args:
        past: its last slot is the present one.
        num_slots: slots to come.
        num_futures: how many; fewer are the first of more.
        seed: of the draws.

    Returns:
        Markets of as many slots as the past and those to come.

    Raises:
        InputError: if the past is too short.
    """
    moments = _analogues(past, num_slots)
    drawn = stream(seed, "futures").choice(moments, size=num_futures)
    return [_continued(past, int(moment), num_slots) for moment in drawn]


def _analogues(past: SpotMarket, num_slots: int) -> Ints:
    """[i] moments that were like the present, the likest first."""
    present = past.num_slots - 1
    num_moments = present - num_slots + 1
    if num_moments < _LEAST:
        expected = f"{num_slots + _LEAST} at least, to tell what may come in {num_slots}"
        raise InputError("market", f"{past.num_slots} slots up to the present one", expected)
    far = np.abs(past.available[:num_moments] - past.available[present])
    dear = np.abs(past.price[:num_moments] - past.price[present])
    # Of moments that are all alike the latest: markets change.
    age = -np.arange(num_moments)
    order = np.lexsort((age, dear, far))
    return order[: max(_LEAST, int(np.ceil(_KEPT * num_moments)))]


def _continued(past: SpotMarket, moment: int, num_slots: int) -> SpotMarket:
    after = slice(moment + 1, moment + 1 + num_slots)
    changes = past.price[after] - past.price[moment]
    return SpotMarket(
        np.concatenate((past.price, np.maximum(past.price[-1] + changes, 0.0))),
        np.concatenate((past.available, past.available[after])),
        past.on_demand_price,
        past.slot_seconds,
    )
