"""The cells of a market as an operator sees them: what is sold, and at which prices."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MarketState:
    """Arrays [slot, node], copies of a mechanism's state.

    Attributes:
        compute_price: money per sample.
        memory_price: money per GB-slot.
        compute_used, memory_used: sold share of what the node has beside the base, 0 to 1; 1 on
            a node that is lost.
        first_slot: the slot of the first row: 0 but in a market whose window rolls.
    """

    compute_price: Floats
    memory_price: Floats
    compute_used: Floats
    memory_used: Floats
    first_slot: int = 0
