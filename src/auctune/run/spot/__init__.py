"""An elastic fine-tuning job on rented instances that come and go, by the slot.

At the beginning of a slot the coordinator looks at the market, asks a policy what to hold, pays
the slot, and gives back or rents instances; within it, micro-batches go to whatever workers there
are (train.data_parallel); at its end a checkpoint is written. What is left at the deadline runs
on as many on-demand instances as the job can use, paid by the fraction (Kong et al., arXiv
2512.20967, section III).
"""

from auctune.run.spot.clock import ModelClock, SlotClock, WallClock
from auctune.run.spot.errors import SpotRunError
from auctune.run.spot.foresight import Foresight
from auctune.run.spot.job import run_spot_job
from auctune.run.spot.listener import SilentListener, SpotListener
from auctune.run.spot.market_provider import ReplayedMarket
from auctune.run.spot.measured import MeasuredOverhead
from auctune.run.spot.order import SpotOrder
from auctune.run.spot.report import SpotRunReport
from auctune.run.spot.trace import MarketTrace

__all__ = [
    "Foresight",
    "MarketTrace",
    "MeasuredOverhead",
    "ModelClock",
    "ReplayedMarket",
    "SilentListener",
    "SlotClock",
    "SpotListener",
    "SpotOrder",
    "SpotRunError",
    "SpotRunReport",
    "WallClock",
    "run_spot_job",
]
