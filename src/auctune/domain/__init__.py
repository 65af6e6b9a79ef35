"""What all parts of auctune speak of: tasks, clusters, schedules, decisions, money, data sets."""

from auctune.domain.cluster import Cluster, Node, NodeType, check_task
from auctune.domain.commitment import Commitment
from auctune.domain.decision import Decision, Reason
from auctune.domain.energy import EnergyForecast, RepeatedEnergy
from auctune.domain.errors import AuctuneError, CheckpointError, InputError
from auctune.domain.events import (
    Event,
    NodeLost,
    NodeReturned,
    Offered,
    Released,
    Replanned,
    SlotAdvanced,
)
from auctune.domain.market_state import MarketState
from auctune.domain.menu import MenuLine, PriceMenu
from auctune.domain.money import Money, parse_money, round_money
from auctune.domain.protocols import Admission
from auctune.domain.receipt import Receipt
from auctune.domain.schedule import Cell, Schedule
from auctune.domain.task import Quote, Task

__all__ = [
    "Admission",
    "AuctuneError",
    "Cell",
    "CheckpointError",
    "Cluster",
    "Commitment",
    "Decision",
    "EnergyForecast",
    "Event",
    "InputError",
    "MarketState",
    "MenuLine",
    "Money",
    "Node",
    "NodeLost",
    "NodeReturned",
    "NodeType",
    "Offered",
    "PriceMenu",
    "Quote",
    "Reason",
    "Receipt",
    "Released",
    "RepeatedEnergy",
    "Replanned",
    "Schedule",
    "SlotAdvanced",
    "Task",
    "check_task",
    "parse_money",
    "round_money",
]
