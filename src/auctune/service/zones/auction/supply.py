"""Supply of an auction zone: base, measured devices, units and energy prices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from auctune.device_profile import Profile, job_token_cost
from auctune.domain import Cluster, EnergyForecast, InputError, Money, Quote, Task
from auctune.domain.data_size import DataSize
from auctune.electricity import RepeatedPrices, read_prices, slot_costs
from auctune.service.config.auction import AuctionConfig, NodeTypeConfig
from auctune.service.datasets.repairer import VendorOffer
from auctune.service.jobs.device_limits import check_adapter, check_batch
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training, ZoneBid
from auctune.service.zones.core.clock import SlotClock

Price = Callable[[int], float]
"""USD per MWh in a slot."""


class ZoneEnergy:
    """Energy forecast of a zone's settings: the cost of a slot at full load, by node type."""

    def __init__(self, costs: Mapping[str, Callable[[int], float]]) -> None:
        self._costs = costs

    def __call__(self, node_type: str, slot: int) -> float:
        return self._costs[node_type](slot)


def zone_energy(entry: AuctionConfig, epoch: float) -> EnergyForecast:
    """Return the energy forecast of a zone whose slot 0 begins at `epoch`."""
    price = _price(entry, epoch)
    return ZoneEnergy(
        {name: _cost(kind, price, entry.slot_seconds) for name, kind in entry.node_types.items()}
    )


def _price(entry: AuctionConfig, epoch: float) -> Price:
    given = entry.energy_price
    if not isinstance(given, str):
        return lambda _: given or 0.0
    try:
        prices, seconds = RepeatedPrices(read_prices(Path(given))), entry.slot_seconds
    except InputError as error:
        raise error if error.place.startswith(given) else error.within(given) from None
    return lambda slot: prices.mean(epoch + slot * seconds, epoch + (slot + 1) * seconds)


def _cost(kind: NodeTypeConfig, price: Price, slot_seconds: float) -> Callable[[int], float]:
    power = kind.power_kw
    if power is None:
        return lambda _: kind.energy_cost
    return lambda slot: slot_costs(power, np.array([price(slot)]), slot_seconds).seen[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(ZoneBid):
    """Bid in an auction zone, with vendors' offers if the data need repair."""

    size: DataSize
    bid: Money
    deadline: float
    offers: tuple[VendorOffer, ...] = ()


@dataclass(frozen=True, slots=True)
class Supply:
    """Supply of an auction zone: slots of its nodes.

    Attributes:
        cluster: nodes, and the first window of slots.
        sample_tokens: tokens of a sample, the unit of work, of the job that profiles are measured
            with.
    """

    base: str
    cluster: Cluster
    profiles: Mapping[str, Profile]
    sample_tokens: float

    def token_cost(self, training: Training, size: DataSize) -> float:
        """Return what a token of a job is sold as, on the node type where it costs most."""
        used = self.cluster.used_types
        profiles = [one for name, one in self.profiles.items() if name in used]
        return job_token_cost(training, size, profiles)

    def work(self, training: Training, size: DataSize) -> float:
        """Return the work of a job, in samples."""
        return size.samples(training.epochs, self.sample_tokens) * self.token_cost(training, size)

    def task(self, bid: Bid, clock: SlotClock, first: int, last: int) -> Task:
        """Return a bid as the mechanism sees it, to run from slot `first` to `last` at most.

        Raises:
            InputError: if the deadline leaves no slot, no node can hold or run the job, or a
                setting fits no device or its data.
        """
        deadline = min(clock.last_slot_by(bid.deadline), last)
        if deadline < first:
            raise InputError(
                "market.deadline",
                "leaves no whole slot",
                f"{to_rfc3339(clock.slot_end(first))}, when the next slot ends, or later",
            )
        training, size = bid.training, bid.size
        check_batch(training, size)
        kinds = [self.cluster.node_types[node.type] for node in self.cluster.nodes]
        room = max(kind.memory_gb for kind in kinds) - self.cluster.base_memory_gb
        memory = max(check_adapter(training, one, room) for one in self.profiles.values())
        return Task(
            id=bid.job,
            arrival=first,
            deadline=deadline,
            work=self.work(training, size),
            memory_gb=memory,
            bid=bid.bid,
            throughput={
                name: profile.throughput(
                    self.cluster.slot_seconds,
                    self.sample_tokens,
                    profile.batch(training, size),
                    training.share,
                )
                for name, profile in self.profiles.items()
            },
            quotes=tuple(
                Quote(offer.vendor, offer.price, clock.slots_for(offer.seconds))
                for offer in bid.offers
            ),
            owner=bid.owner,
            budget=bid.remaining_budget(),
        )
