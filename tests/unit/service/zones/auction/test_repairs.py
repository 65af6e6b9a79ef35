"""Orders of repairs that are over, after a restart."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

from auctune.service.datasets.repairer import Repair, RepairOrder, VendorOffer
from auctune.service.zones.auction.worker import RepairCoordinator
from auctune.service.zones.core.actor import ZoneActor
from support.zones import MadeUpZone


class KeptOrders:
    """A vendor that keeps which orders it was to discard."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.discarded: list[Repair] = []

    async def repair(self, order: RepairOrder, source: Path, target: Path) -> Any:
        raise AssertionError(order)

    async def discard(self, order: RepairOrder) -> None:
        self.discarded.append(order.repair)


def test_after_a_restart_orders_of_vendors_that_failed_are_discarded_too() -> None:
    made = MadeUpZone()
    offers = (VendorOffer("a", Decimal(1), 1.0, "of a"),)
    made.zone.decide(made.bid("job", "100", rows=40, slots=9, offers=offers))
    failed = made.zone.state.jobs["job"].repair
    assert failed is not None
    made.zone.switch_vendor("job", failed, "it is late", [VendorOffer("b", Decimal(1), 1.0)])
    made.keep()
    made.restart()

    async def resume(vendors: dict[str, KeptOrders]) -> None:
        none: Any = None
        actor = ZoneActor(made.zone, made.log)
        repairs = RepairCoordinator(actor, made.clock, vendors, none, none, Path())
        repairs.resume(made.zone.state.jobs.values())
        while not vendors["a"].discarded:
            await asyncio.sleep(0)
        await repairs.close()
        actor.close()

    vendors = {name: KeptOrders(name) for name in "ab"}
    asyncio.run(resume(vendors))
    assert vendors["a"].discarded == [failed]
    assert not vendors["b"].discarded
