"""What an auction's zone remembers: its state, and the mechanism that decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import Admission, EnergyForecast, RepeatedEnergy
from auctune.registry import build
from auctune.service.zones.auction.market_events import to_market
from auctune.service.zones.auction.records import read_cluster
from auctune.service.zones.auction.snapshot import load_zone
from auctune.service.zones.auction.state import ZoneState
from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent

Fresh = Callable[[], tuple[ZoneState, Admission]]
"""Makes an empty state and a mechanism over an empty cluster."""


@dataclass(frozen=True, slots=True)
class AuctionMemory:
    """State and mechanism, of the same events."""

    state: ZoneState
    mechanism: Admission

    @property
    def seq(self) -> int:
        """Of the newest event applied."""
        return self.state.seq

    def load(self, body: bytes) -> None:
        """Take over a snapshot; see `load_zone`."""
        load_zone(body, self.state, self.mechanism)

    def apply(self, event: ZoneEvent) -> Change:
        """Take over one event."""
        return fold(event, self.state, self.mechanism)


def fresh_zone(
    opened: Mapping[str, Any], energy: EnergyForecast | None = None
) -> tuple[ZoneState, Admission]:
    """A zone of which nothing is sold, as the event with which it opened says.

    Args:
        opened: the event's body.
        energy: what slots cost that are on no record yet; none: as the first window, again.
    """
    cluster = read_cluster(opened["cluster"])
    forecast = RepeatedEnergy(cluster) if energy is None else energy
    return ZoneState(cluster), build(
        opened["mechanism"], cluster, opened["settings"], energy=forecast
    )


def fold(event: ZoneEvent, state: ZoneState, mechanism: Admission) -> Change:
    """Apply one event to both; what it changes for readers."""
    told = to_market(event, state)
    if told is not None:
        mechanism.apply(told)
    return state.apply(event)


def fresh_memory(opened: Mapping[str, Any], energy: EnergyForecast | None = None) -> AuctionMemory:
    """The same as a memory."""
    return AuctionMemory(*fresh_zone(opened, energy))
