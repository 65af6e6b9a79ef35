"""Training where the data are: the market of edge sites.

After Pang et al., "Eris: An Online Auction for Scheduling Unbiased Distributed Learning Over Edge
Networks" (IEEE TMC 2024), as docs/explanation/edge.md tells.
"""

from auctune.edge.baselines import AntMan, Liquid, Tiresias
from auctune.edge.checker import Violation, first_violation
from auctune.edge.decision import (
    EdgeAdvanced,
    EdgeCommitment,
    EdgeDecision,
    EdgeEvent,
    EdgeMenu,
    EdgeMenuLine,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    Move,
    SiteLost,
    SiteReturned,
    SlotPlan,
)
from auctune.edge.eris import EdgeEntry, Eris, ErisEntry
from auctune.edge.explain import EdgeExplanation, explain
from auctune.edge.job import ByDuration, EdgeJob, Logistic, Utility
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket, Site
from auctune.edge.offline.bound import welfare_bound
from auctune.edge.offline.optimum import (
    BestPlan,
    EdgeOptimum,
    best_plan,
    offline_optimum,
)
from auctune.edge.prices import (
    EdgePrices,
    EdgePricing,
    ErisParams,
    PaperPrices,
    SharePrices,
    cost_of,
)

__all__ = [
    "AntMan",
    "BestPlan",
    "ByDuration",
    "EdgeAdvanced",
    "EdgeCommitment",
    "EdgeDecision",
    "EdgeEntry",
    "EdgeEvent",
    "EdgeExplanation",
    "EdgeJob",
    "EdgeLedger",
    "EdgeMarket",
    "EdgeMenu",
    "EdgeMenuLine",
    "EdgeOffered",
    "EdgeOptimum",
    "EdgePlan",
    "EdgePrices",
    "EdgePricing",
    "EdgeReplanned",
    "Eris",
    "ErisEntry",
    "ErisParams",
    "Liquid",
    "Logistic",
    "Move",
    "PaperPrices",
    "SharePrices",
    "Site",
    "SiteLost",
    "SiteReturned",
    "SlotPlan",
    "Tiresias",
    "Utility",
    "Violation",
    "best_plan",
    "cost_of",
    "explain",
    "first_violation",
    "offline_optimum",
    "welfare_bound",
]
