"""The ending of a run whose time goes on: what was held is put on record piece by piece.

What a piece trained is in a checkpoint before the piece is on record, as with a slot: a run that is
killed never trains, and pays for, what was paid before.
"""

from collections.abc import Callable
from math import floor

from auctune.run.spot.errors import CapReachedError
from auctune.run.spot.parts import Parts
from auctune.run.spot.state import SpotRunState

# Times are sums of fractions of slots.
_SLACK = 1e-9


def hold_piece(
    parts: Parts,
    state: SpotRunState,
    since: float,
    work: Callable[[float], None],
    save: Callable[[], None],
) -> float:
    """Train to the end of a slot, or of what may be paid, and put on record what was held.

    Args:
        parts: of the run.
        state: of the run; the piece is added to it.
        since: when the piece begins: now, or when the one before ended.
        work: trains until a moment.
        save: writes a checkpoint, if there is anything new in it.

    Returns:
        When it ended.

    Raises:
        CapReachedError: if nothing more may be paid.
    """
    rate = parts.provider.offer(since).on_demand_price * parts.job.n_max
    most = (parts.cap - state.slot_cost - state.held_slots * rate) / rate
    if most < _SLACK:
        raise CapReachedError(rate)
    end = min(floor(since + _SLACK) + 1.0, since + most)
    until = since
    try:
        work(end)
    finally:
        # The last batch may end a little later: that is of the next piece.
        until = min(max(parts.clock.now(), since), end)
        save()
        event = {"type": "held", "time": until, "since": since}
        parts.journal.append(event)
        state.apply(event)
        parts.listener.ending_held(since, until)
    return until
