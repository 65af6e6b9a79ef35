"""What may come after a past: stretches of that past which began as the present stands.

Of the n moments s in the past with as many slots after them as are asked for, the k = sqrt(n)
likest are taken: those whose count A_s is nearest to the present one, of equals the nearest in
price, then the latest. What followed each may follow now, counts as they were, prices by their
changes,

    A_{t+h} = A_{s+h},    p_{t+h} = max(0, p_t + p_{s+h} - p_s)

(resampling of analogues; k as in Lall and Sharma, "A nearest neighbor bootstrap for resampling
hydrologic time series", Water Resources Research 32(3), 1996, who weigh the j-th by 1/j where here
all are as likely: k stretches are few, and so the tails are wider). How price and count move
together, and how long either stays, is thereby as it was. Few moments matter: where the present is
rare, the next ones are unlike it, and where it is frequent, the latest tell how things are lately.
"""

import math

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Ints
from auctune.spot.market import SpotMarket

# Under which a quantile of what came says nothing.
_LEAST = 8


def likely_futures(
    past: SpotMarket, num_slots: int, most_futures: int | None = None
) -> list[SpotMarket]:
    """Markets that begin as `past` and go on in ways that it has seen, each as likely.

    Args:
        past: its last slot is the present one.
        num_slots: slots to come.
        most_futures: no more than so many, those of the likest moments; none: all.

    Returns:
        Markets of as many slots as the past and those to come.

    Raises:
        InputError: if the past is too short.
    """
    moments = _analogues(past, num_slots)[:most_futures]
    return [_continued(past, int(moment), num_slots) for moment in moments]


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
    return order[: max(_LEAST, math.isqrt(num_moments - 1) + 1)]


def _continued(past: SpotMarket, moment: int, num_slots: int) -> SpotMarket:
    after = slice(moment + 1, moment + 1 + num_slots)
    changes = past.price[after] - past.price[moment]
    return SpotMarket(
        np.concatenate((past.price, np.maximum(past.price[-1] + changes, 0.0))),
        np.concatenate((past.available, past.available[after])),
        past.on_demand_price,
        past.slot_seconds,
    )
