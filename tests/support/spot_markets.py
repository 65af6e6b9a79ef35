"""Markets drawn by a seed."""

import numpy as np

from auctune.spot import SpotMarket


def random_market(num_slots: int, seed: int, most: int = 12) -> SpotMarket:
    """Prices and counts without order."""
    random = np.random.default_rng(seed)
    return SpotMarket(random.uniform(0.1, 1.2, num_slots), random.integers(0, most + 1, num_slots))
