"""The kinds of zones whose logs are replayed, by name."""

from collections.abc import Mapping

from auctune.cli.replays.auction import AuctionReplay
from auctune.cli.replays.edge import EdgeReplay
from auctune.cli.replays.replay import Logged, OpenReplay, Replay
from auctune.cli.replays.spot import open_spot
from auctune.cli.replays.timeshare import TimeshareReplay
from auctune.domain import InputError
from auctune.service.config.zone import AUCTION, EDGE, SPOT, TIMESHARE

REPLAYS: Mapping[str, OpenReplay] = {
    AUCTION: AuctionReplay,
    SPOT: open_spot,
    TIMESHARE: TimeshareReplay,
    EDGE: EdgeReplay,
}


def open_replay(logged: Logged) -> Replay:
    """The replay of a zone's kind.

    Raises:
        InputError: if logs of this kind are not replayed, or something is missing.
    """
    kind = logged.period.kind
    if kind not in REPLAYS:
        found = f"{logged.period.zone!r} is of kind {kind}"
        raise InputError("--zone", found, f"a zone of kind {', '.join(REPLAYS)}")
    return REPLAYS[kind](logged)
