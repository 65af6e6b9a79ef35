"""Between exploring and planning."""

from auctune.timeshare.balancing.balancing import Balancing, BalancingRun
from auctune.timeshare.balancing.doubt import Doubt
from auctune.timeshare.balancing.exploration import Exploration
from auctune.timeshare.balancing.thompson import Thompson
from auctune.timeshare.balancing.ucb import Ucb

__all__ = ["Balancing", "BalancingRun", "Doubt", "Exploration", "Thompson", "Ucb"]
