"""What Eris is held against; each plays a whole instance, slot by slot."""

from auctune.edge.baselines.antman import AntMan
from auctune.edge.baselines.liquid import Liquid
from auctune.edge.baselines.tiresias import Tiresias

__all__ = ["AntMan", "Liquid", "Tiresias"]
