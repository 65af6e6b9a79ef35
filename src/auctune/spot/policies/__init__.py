"""Ways of renting."""

from auctune.spot.policies.ahanp import Ahanp
from auctune.spot.policies.ahap import Ahap
from auctune.spot.policies.baselines import OnDemandOnly, SpotFirst, UniformProgress
from auctune.spot.policies.robust import Robust

__all__ = ["Ahanp", "Ahap", "OnDemandOnly", "Robust", "SpotFirst", "UniformProgress"]
