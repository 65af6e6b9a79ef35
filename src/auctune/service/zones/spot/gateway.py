"""Request side of a spot zone: jobs on instances that are rented by the slot."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from auctune.domain import InputError, Money
from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.registry import Principal
from auctune.service.charts.renderer import ChartSpec
from auctune.service.config.zone import SPOT
from auctune.service.datasets.repairer import DatasetQuote
from auctune.service.fair_queue import ESTIMATES
from auctune.service.jobs.quotes import Alternatives
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import DEADLINE, JobValue, Terms, request_record
from auctune.service.jobs.training import Submission
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.gateway import EstimateGateway, GatewayContext, cap_of
from auctune.service.zones.core.job import Estimate
from auctune.service.zones.core.sections import (
    MAX_CHART_SLOTS,
    SLOT_COLUMNS,
    Column,
    JobName,
    Section,
    ZoneView,
)
from auctune.service.zones.spot.state import ESTIMATOR, EstimateInputs, SlotStats, SpotBid
from auctune.service.zones.spot.zone import SpotSupply, SpotZone, no_slot


class SpotGateway(EstimateGateway[SpotZone, SpotBid, EstimateInputs]):
    """Gateway of a spot zone.

    Args:
        context: dependencies that all kinds share.
        rental: supply of the zone.
    """

    kind = SPOT
    terms = Terms(
        required={"market.deadline": DEADLINE},
        unsupported=("market.target_loss", "market.sites", "market.repair", "method.kto"),
    )

    def __init__(self, context: GatewayContext[SpotZone, DatasetQuote], rental: SpotSupply) -> None:
        super().__init__(context, rental.base, rental.n_max * rental.max_jobs)
        self.rental = rental

    def _valued_record(
        self, who: Principal, request: JobRequest, value: JobValue, alternatives: Alternatives
    ) -> dict[str, Any]:
        record = request_record(request, who, value.amount, value.deadline, alternatives)
        return {**record, "zero_at": value.zero_at}

    def _check_cap(self, cap: Money, quoted: Estimate | None) -> None:
        if quoted is not None and cap < quoted.p90_cost:
            expected = f"at least {quoted.p90_cost}: a lower cap is likely to be exceeded"
            raise InputError("market.max_cost", f"{cap}", expected)

    async def _estimate(
        self, submission: Submission, data: DatasetQuote
    ) -> tuple[Estimate, EstimateInputs]:
        rental, training, value = self.rental, submission.training, _value(submission.record)
        rental.check(training, data.size)
        slot = self.clock.slot()
        pace = await self.actor.call(lambda zone: zone.pace)
        ready_at = self.clock.now() + pace.start_seconds
        slots = rental.slot_range(value.deadline, slot, ready_at)
        if not slots:
            raise no_slot(self.clock, slots.start)
        terms = rental.terms(training, data.size, value, slots, pace.speed)
        cap = cap_of(submission.record)
        estimate = await self._quoting.run(
            submission.owner,
            lambda: rental.estimate(terms, slots.start, slot, pace, cap),
            executor=ESTIMATES,
            # Pending jobs are limited by the number of open jobs.
            is_limited=not submission.is_pending,
        )
        inputs = EstimateInputs(
            slot=slot,
            first=slots.start,
            deadline=terms.deadline,
            hard_factor=terms.hard_factor,
            max_cost=estimate.p90_cost if cap is None else cap,
            estimator=ESTIMATOR,
            **asdict(pace),
        )
        return estimate, inputs

    def _estimated_bid(
        self,
        submission: Submission,
        data: DatasetQuote,
        estimate: Estimate,
        inputs: EstimateInputs,
    ) -> SpotBid:
        cap = cap_of(submission.record)
        assert cap is not None
        return SpotBid(
            **self._bid_fields(submission),
            size=data.size,
            worth=_value(submission.record),
            cap=cap,
            estimate=estimate,
            estimate_inputs=inputs,
        )

    def _accept(self, zone: SpotZone, bid: SpotBid) -> JobReadModel | None:
        return zone.decide(bid) if zone.has_room else None

    def _view(self, zone: SpotZone, job_name: JobName) -> ZoneView:
        zone.begin_slots()
        slots, rental = [*zone.state.slots.values()], zone.rental
        section = market_section(slots, rental.unit_price, rental.unit_cost, zone.clock)
        return ZoneView((section,))


def market_section(
    slots: Sequence[SlotStats], unit_price: float, unit_cost: float, clock: SlotClock
) -> Section:
    """Return the spot market and the instances held by slot.

    Args:
        slots: oldest first.
        unit_price: price of an on-demand instance for a slot.
        unit_cost: its cost for the operator.
        clock: of the zone.
    """
    begins = clock.slot_start
    charts: tuple[ChartSpec, ...] = ()
    if shown := slots[-MAX_CHART_SLOTS:]:
        first, now = shown[0].slot, shown[-1]
        data = {
            "slots": [
                {**asdict(one), "slot": one.slot - first, "price": one.price * unit_price}
                for one in shown
            ],
            "on_demand_price": unit_price,
            "times": {"start": begins(first), "seconds": clock.slot_seconds},
        }
        text = (
            f"Market (dashed: on demand) and holdings over {len(shown)} slots; in the newest a spot"
            f" instance costs {now.price * unit_price:.4g} for a slot, there are {now.available},"
            f" and held are {now.on_demand} on demand and {now.spot} spot"
        )
        charts = (ChartSpec("rented", data, text),)
    counts = (Column(name, "number") for name in ("available", "on demand held", "spot held"))
    rows = (
        (one.slot, begins(one.slot), one.price * unit_price, one.available, one.on_demand, one.spot)
        for one in reversed(slots)
    )
    return Section(
        "Spot market and holdings",
        f"Price of a spot instance for a slot (on demand: {unit_price:g}, at a cost of"
        f" {unit_cost:g}), available instances, and those held by all jobs.",
        (*SLOT_COLUMNS, Column("spot price", "number", 4), *counts),
        tuple(rows),
        charts,
    )


def _value(record: dict[str, Any]) -> JobValue:
    amount = record["bid"]
    return JobValue(
        None if amount is None else Money(amount), record["deadline"], record["zero_at"]
    )
