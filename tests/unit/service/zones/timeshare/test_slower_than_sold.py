"""A pool slower than sold: its jobs are charged as if it had kept the speed of its profile."""

from decimal import Decimal
from pathlib import Path

import pytest

from auctune.engine.pool.events import ExitReason
from auctune.files.device_profile import read_profile
from auctune.service.ledger import user_account
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from support.pooled_zones import PRICE, PooledZone

PROFILE = read_profile(Path("examples/first-market/cpu-core.json"))
BATCHES = 10


def make_pool() -> tuple[PooledZone, float]:
    """Return a pool with one job, and the seconds of ten batches at the speed that is sold."""
    pool = PooledZone()
    pool.zone.profile = PROFILE
    pool.decide("a")
    return pool, BATCHES * pool.zone.batch_seconds(pool.zone.state.jobs["a"])


def owed(pool: PooledZone) -> Decimal:
    sums = pool.log.balances()
    assert sum(sums.values()) == 0
    return sums.get(user_account("ann"), Decimal(0))


def test_batches_that_take_longer_than_sold_are_charged_as_sold() -> None:
    pool, sold = make_pool()
    pool.trains({"a": (BATCHES, 0.9, 5 * sold)})
    assert float(owed(pool)) == pytest.approx(float(PRICE) * sold, abs=1e-4)
    assert pool.zone.state.jobs["a"].notes == [SLOWER_THAN_SOLD]
    (metered,) = (event for event, _ in pool.log.events if event.type == EventType.METERED)
    assert metered.body["seconds"] == 5 * sold
    assert metered.body["charged_seconds"] == sold
    assert pool.folded().state == pool.zone.state


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_pool_at_the_speed_sold_or_above_charges_its_seconds(speed: float) -> None:
    pool, sold = make_pool()
    pool.trains({"a": (BATCHES, 0.9, sold / speed)})
    assert float(owed(pool)) == pytest.approx(float(PRICE) * sold / speed, abs=1e-4)
    assert not pool.zone.state.jobs["a"].notes
    (metered,) = (event for event, _ in pool.log.events if event.type == EventType.METERED)
    assert "charged_seconds" not in metered.body


@pytest.mark.parametrize(
    ("reason", "slowness", "is_refunded"),
    [
        (ExitReason.DEADLINE_MISSED, 5.0, True),
        (ExitReason.DEADLINE_MISSED, 1.0, False),
        # The batches that it paid for were trained, however long they took.
        (ExitReason.STOPPED, 5.0, False),
    ],
)
def test_a_job_that_misses_its_deadline_on_a_slow_pool_is_refunded(
    reason: ExitReason, slowness: float, is_refunded: bool
) -> None:
    pool, sold = make_pool()
    pool.trains({"a": (BATCHES, 0.9, slowness * sold)})
    assert owed(pool) > 0
    pool.leaves("a", reason)
    pool.zone.finish("a", [])
    pool.keep()
    assert (owed(pool) == 0) is is_refunded
