"""Ways of renting."""

from auctune.spot.policies.ahanp import Ahanp
from auctune.spot.policies.ahap import Ahap
from auctune.spot.policies.on_demand_only import OnDemandOnly
from auctune.spot.policies.robust import Robust
from auctune.spot.policies.spot_first import SpotFirst
from auctune.spot.policies.uniform_progress import UniformProgress

__all__ = ["Ahanp", "Ahap", "OnDemandOnly", "Robust", "SpotFirst", "UniformProgress"]
