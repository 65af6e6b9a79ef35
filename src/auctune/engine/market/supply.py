"""From profiles to the cluster that the auction sells.

A node type's compute is in samples a slot: `sample_tokens` tokens of the job that a profile is
measured with, so that tasks with other adapters and rows are measured by one unit.
"""

import os
from collections import Counter
from collections.abc import Mapping

from auctune.domain import Cluster, InputError, Node, NodeType
from auctune.engine.market.market_file import MarketFile, NodeTypeEntry
from auctune.files.device_profile import Profile, physical_devices


def make_cluster(market: MarketFile, profiles: Mapping[str, Profile]) -> Cluster:
    """The nodes of a market, as measured.

    Args:
        profiles: by node type.

    Raises:
        InputError: if a slot is too short for a profile, or memory does not hold the base.
    """
    return Cluster(
        slots=market.slots,
        slot_seconds=market.slot_seconds,
        # One zone has one base; where its activations differ by device, the largest counts.
        base_memory_gb=max(profiles[name].base_memory_gb for name in market.node_types),
        node_types={
            name: _node_type(market, name, entry, profiles[name])
            for name, entry in market.node_types.items()
        },
        nodes=tuple(Node(node.id, node.type) for node in market.nodes),
    )


def threads_per_node(market: MarketFile) -> int:
    """Threads of each process of a node, so that all together use all cores; of a GPU's, too."""
    if market.threads is not None:
        return market.threads
    num_processes = sum(market.node_types[node.type].devices for node in market.nodes)
    return max(1, len(os.sched_getaffinity(0)) // num_processes)


def _node_type(market: MarketFile, name: str, entry: NodeTypeEntry, profile: Profile) -> NodeType:
    try:
        compute = profile.compute(market.slot_seconds, market.sample_tokens)
    except InputError as error:
        raise InputError(f"slot_seconds (node_types.{name})", error.found, error.expected) from None
    cost = entry.energy_cost
    return NodeType(
        compute=compute,
        memory_gb=profile.memory_gb / _nodes_on_device(market, name),
        energy_cost=tuple(cost) if isinstance(cost, list) else (cost,) * market.slots,
    )


def _nodes_on_device(market: MarketFile, name: str) -> int:
    """Return the number of nodes that share the memory that was measured: those on one device.

    A profile that is given holds for each node as it stands. A GPU has one node only, and nodes on
    a CPU are measured with their own threads, so that compute need not be divided.
    """
    if not market.node_types[name].measure:
        return 1
    devices = Counter(_first_device(market, node.type) for node in market.nodes)
    return max(1, devices[_first_device(market, name)])


def _first_device(market: MarketFile, name: str) -> str:
    return physical_devices(market.node_types[name].device)[0]
