"""Loads a spot zone: market, log, actor and worker."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from auctune.domain.data_size import DataSize
from auctune.run.base_facts import BaseFacts
from auctune.run.rental.market import ReplayedRecord, read_replayed
from auctune.service.config.spot import SpotConfig
from auctune.service.config.zone import SPOT
from auctune.service.dataset_inspector import DatasetInspector
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Defaults, Training
from auctune.service.zones.core.clock import Now, SlotClock
from auctune.service.zones.core.dependencies import ZoneDependencies
from auctune.service.zones.core.events import VERSION
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import LoadedZone
from auctune.service.zones.core.loader import ZoneLoader, ensure_unchanged
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.job import learned_pace
from auctune.service.zones.spot.state import empty_model
from auctune.service.zones.spot.supply import SpotSupply
from auctune.service.zones.spot.worker import SpotWorker
from auctune.service.zones.spot.zone import SpotZone

# Settings that running jobs depend on.
_FIXED = ("base", "slot_seconds", "start", "market_slot_seconds", "market")


class SpotLoader:
    """Opens zones of this kind.

    Args:
        dependencies: what all zones are opened with.
    """

    def __init__(self, dependencies: ZoneDependencies) -> None:
        self._dependencies = dependencies
        self._past = ZoneLoader(dependencies)

    async def open(self, entry: SpotConfig, facts: BaseFacts) -> LoadedZone:
        """One zone, as it stood."""
        here = self._dependencies
        market = await asyncio.to_thread(load_market, entry)
        wanted = created_record(entry, market, here.now())
        record = self._past.recorded_settings(
            entry.name, wanted, partial(ensure_unchanged, entry.name, _FIXED)
        )
        rental = build_supply(entry, facts, market, record, here.now)
        here.report(f"getting the estimates of zone {entry.name} ready", 0.0)
        await asyncio.to_thread(_warm_up, rental)
        memory = await self._past.restore(entry.name, lambda: empty_model(record))
        zone = SpotZone(entry.name, rental, memory, here.recorder)
        actor = self._past.start_actor(zone, memory, record)
        inspector = DatasetInspector(entry.base_source, here.data, here.library)
        defaults = Defaults(max_length=entry.max_length, context_tokens=facts.context_tokens)
        files = TrainingData(here.library, facts.digest, inspector, defaults.length)
        context = GatewayContext(
            actor, rental.clock, rental.num_slots, defaults, files, here.budgets, here.quotes
        )
        open_zone = SpotGateway(context, rental)
        return LoadedZone(open_zone, SpotWorker(actor, rental, entry, here))


def load_market(entry: SpotConfig) -> ReplayedRecord:
    """The market that a zone replays.

    Raises:
        InputError: naming the file or the key.
    """
    return read_replayed(
        Path(entry.market),
        None if entry.prices is None else Path(entry.prices),
        entry.fixed_price,
        on_demand_price=entry.on_demand_price,
        slot_seconds=entry.replayed_seconds,
        start=entry.start,
    )


def created_record(entry: SpotConfig, market: ReplayedRecord, now: float) -> dict[str, Any]:
    """The body of the event with which a zone opens."""
    return {
        "version": VERSION,
        "kind": SPOT,
        "base": entry.base,
        "market": market.digest,
        "start": market.start,
        "market_slot_seconds": entry.replayed_seconds,
        "epoch": now // entry.slot_seconds * entry.slot_seconds,
        "slot_seconds": entry.slot_seconds,
    }


def build_supply(
    entry: SpotConfig,
    facts: BaseFacts,
    market: ReplayedRecord,
    record: Mapping[str, Any],
    now: Now,
) -> SpotSupply:
    """What a zone offers."""
    unit_cost = entry.on_demand_price * entry.replayed_seconds / 3600
    return SpotSupply(
        base=entry.base,
        base_digest=facts.digest,
        context_tokens=facts.context_tokens,
        profile=facts.profile,
        spare=entry.headroom,
        start_seconds=entry.start_seconds,
        market=market,
        renting=entry.renting,
        clock=SlotClock(record["epoch"], record["slot_seconds"], now),
        num_slots=entry.num_slots,
        max_jobs=entry.max_jobs,
        n_min=entry.n_min,
        n_max=entry.n_max,
        mu1=entry.mu1,
        mu2=entry.mu2,
        table=None if entry.scaling is None else tuple(entry.scaling),
        micro_batch=entry.micro_batch,
        unit_cost=unit_cost,
        unit_price=unit_cost * (1.0 + entry.margin),
    )


def _warm_up(rental: SpotSupply) -> None:
    """Make one estimate: kernels are compiled, or loaded, before anybody waits for them."""
    pace = learned_pace((), (), 0.0)
    slots = rental.slot_range(rental.clock.slot_start(4), 0, rental.clock.slot_start(1))
    if slots:
        worth = JobValue(None, rental.clock.slot_end(slots[-1]), rental.clock.slot_end(slots[-1]))
        terms = rental.terms(Training("none"), DataSize(8, 16.0), worth, slots, pace.speed)
        rental.estimate(terms, slots.start, 0, pace)
