"""Small edge markets, in which others already hold something."""

import numpy as np

from auctune.edge.job import ByDuration, EdgeJob, Logistic
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket, Site


def small_market(random: np.random.Generator) -> EdgeMarket:
    """Two to four sites over four to six slots."""
    sites = tuple(
        Site(
            f"s{index}",
            {"gpu": float(random.integers(0, 5)), "cpu": float(random.integers(2, 13))},
        )
        for index in range(int(random.integers(2, 5)))
    )
    base = float(random.choice([2.0, 10.0, 1000.0]))
    return EdgeMarket(
        slots=int(random.integers(4, 7)),
        sites=sites,
        traffic_mb_per_slot=float(random.integers(5, 60)),
        chunk_mb=float(random.choice([0.0, 0.5, 2.0])),
        price_base=dict.fromkeys(("data", "gpu", "cpu"), base),
    )


def small_job(random: np.random.Generator, market: EdgeMarket, name: str = "j") -> EdgeJob:
    """A job of up to fourteen chunks."""
    shares = random.dirichlet(np.ones(len(market.sites)))
    counts = random.multinomial(int(random.integers(1, 15)), shares)
    epochs = int(random.integers(1, 5))
    utility = (
        Logistic(float(random.integers(5, 400)), float(random.integers(1, 5)))
        if random.random() < 0.7
        else ByDuration(tuple(sorted(random.uniform(0, 200, 5).tolist(), reverse=True)))
    )
    return EdgeJob(
        id=name,
        arrival=int(random.integers(0, market.slots - 2)),
        epochs=epochs,
        chunks={s.id: int(c) for s, c in zip(market.sites, counts, strict=True) if c},
        worker={"gpu": float(random.integers(0, 2)), "cpu": float(random.integers(1, 4))},
        server={"gpu": float(random.integers(0, 2)), "cpu": float(random.integers(0, 3))},
        chunks_per_worker_slot=epochs * float(random.choice([0.4, 1.0, 1.5, 2.0, 3.0])),
        parameter_mb=float(random.choice([0.0, 1.0, 3.0, 8.0])),
        utility=utility,
    )


def used_ledger(random: np.random.Generator, market: EdgeMarket) -> EdgeLedger:
    """What others hold: a share of each site in each slot, and of the traffic."""
    ledger = EdgeLedger(market)
    most = float(random.choice([0.0, 0.5, 0.9]))
    shape = ledger.used.shape
    ledger.used[...] = np.floor(ledger.capacity * random.uniform(0, most, shape))
    ledger.traffic[...] = random.uniform(0, most, market.slots) * market.traffic_mb_per_slot * 0.6
    return ledger
