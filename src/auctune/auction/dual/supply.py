"""What is for sale, by slot and node type: the nodes of a type taken together."""

from typing import NamedTuple

import numpy as np

from auctune.auction.book import Floats
from auctune.auction.tolerance import FIT
from auctune.domain import Cluster

# Sums of whole nodes that are each filled to (1 + FIT) of their capacity.
_ROUNDING = 1 + 2 * FIT


class Supply(NamedTuple):
    """T slots of K node types."""

    compute: Floats  # [T, K] samples that can be sold
    memory: Floats  # [T, K] GB
    energy: Floats  # [T, K] money that a sample costs the operator
    node_compute: Floats  # [K] samples that one node can hold; 0 for a type without nodes
    node_memory: Floats  # [K] GB


def whole_supply(cluster: Cluster) -> Supply:
    """An empty cluster."""
    kinds = list(cluster.node_types.values())
    compute = np.array([kind.compute for kind in kinds])
    memory = np.array([kind.memory_gb - cluster.base_memory_gb for kind in kinds])
    counts = np.array(
        [sum(node.type == name for node in cluster.nodes) for name in cluster.node_types]
    )
    energy = np.array([kind.energy_cost for kind in kinds]).T / compute
    return Supply(
        np.tile(counts * compute * _ROUNDING, (cluster.slots, 1)),
        np.tile(counts * memory * _ROUNDING, (cluster.slots, 1)),
        np.ascontiguousarray(energy),
        np.where(counts > 0, compute, 0.0),
        memory,
    )
