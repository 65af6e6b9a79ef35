"""How far a run has come, read from its folder without disturbing it: what advice begins with."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from auctune.domain import InputError
from auctune.run.event_log import read_events
from auctune.run.spot.folder import SpotFolder
from auctune.run.spot.inputs import kept_inputs
from auctune.run.spot.state import SlotRecord, SpotRunState
from auctune.sim.spot.job_file import JobFile
from auctune.sim.spot.trace import read_market
from auctune.spot.market import SpotMarket
from auctune.spot.play import PastSlot


@dataclass(frozen=True, slots=True)
class SoFar:
    """A run at the beginning of the slot that it is in.

    Attributes:
        file: the job's.
        policy, forecast: the texts by which it is run.
        start: slot of the market in which the job began.
        seen: the market up to the present slot; from the job's beginning on as the run saw it.
        past: the slots that are over, with what was done and paid.
    """

    file: JobFile
    policy: str
    forecast: str
    start: int
    seen: SpotMarket
    past: tuple[PastSlot, ...]


def read_so_far(folder: Path) -> SoFar:
    """How far the run in a folder has come, whether it goes on or was stopped.

    Raises:
        InputError: if the folder holds no run, or one whose deadline is over.
    """
    place = SpotFolder(folder)
    inputs = kept_inputs(place)
    state = SpotRunState.fold(read_events(place.event_log))
    if state.ended is not None or state.ending is not None:
        raise InputError(str(folder), "holds a run that is over", "one that has slots to come")
    if not state.slots:
        raise InputError(str(folder), "holds a run without a slot", "one that has begun")
    file, settings = inputs.read_job(), inputs.settings
    market = read_market(inputs.recipe(file))
    return SoFar(
        file=file,
        policy=settings.policy,
        forecast=settings.forecast,
        start=settings.start,
        seen=_seen(market, settings.start, state.slots),
        past=tuple(_past(*pair) for pair in pairwise(state.slots)),
    )


def _past(record: SlotRecord, following: SlotRecord) -> PastSlot:
    done = following.observation.progress
    return PastSlot(record.observation, record.allocation, done, record.paid)


def _seen(market: SpotMarket, start: int, slots: list[SlotRecord]) -> SpotMarket:
    before = market.between(0, start)
    return SpotMarket(
        np.concatenate((before.price, [one.observation.price for one in slots])),
        np.concatenate((before.available, [one.observation.available for one in slots])),
        market.on_demand_price,
        market.slot_seconds,
    )
