"""The replay of each kind of zone."""

from collections.abc import Callable, Mapping

from auctune.domain import InputError
from auctune.replay.auction import AuctionReplay
from auctune.replay.compare import AnyReplay, ReplayInput
from auctune.replay.edge import EdgeReplay
from auctune.replay.spot import SpotReplay
from auctune.replay.timeshare import TimeshareReplay
from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE

REPLAYS: Mapping[str, Callable[[ReplayInput], AnyReplay]] = {
    AUCTION: AuctionReplay,
    SPOT: SpotReplay,
    TIMESHARE: TimeshareReplay,
    EDGE: EdgeReplay,
}


def open_replay(source: ReplayInput) -> AnyReplay:
    """Return the replay of a range by its zone's kind."""
    log = source.log
    if log.kind not in REPLAYS:
        found = f"{log.zone!r} is of kind {log.kind}"
        raise InputError("--zone", found, f"a zone of kind {', '.join(REPLAYS)}")
    return REPLAYS[log.kind](source)
