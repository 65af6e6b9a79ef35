"""What all parts of auctune speak of: tasks, clusters, schedules, decisions, money, data sets."""

from auctune.domain.cluster import (
    Cluster,
    EnergyForecast,
    Node,
    NodeType,
    RepeatedEnergy,
    check_task,
)
from auctune.domain.decision import Cell, Decision, MenuLine, PriceMenu, Reason, Schedule
from auctune.domain.errors import AuctuneError, CheckpointError, InputError
from auctune.domain.events import (
    Commitment,
    Event,
    NodeLost,
    NodeReturned,
    Offered,
    PricesLearned,
    Released,
    Replanned,
    SlotAdvanced,
)
from auctune.domain.explanation import Explanation, PricedCell, PricedPlan
from auctune.domain.money import Money, parse_money, round_money
from auctune.domain.protocols import Admission, MarketState
from auctune.domain.snapshot import Saved, read_snapshot, write_snapshot
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
    "Explanation",
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
    "PricedCell",
    "PricedPlan",
    "PricesLearned",
    "Quote",
    "Reason",
    "Released",
    "RepeatedEnergy",
    "Replanned",
    "Saved",
    "Schedule",
    "SlotAdvanced",
    "Task",
    "check_task",
    "parse_money",
    "read_snapshot",
    "round_money",
    "write_snapshot",
]
