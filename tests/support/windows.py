"""Markets without an end beside markets with one: the same bids and costs for both."""

from dataclasses import replace

from auctune.domain import Cluster, EnergyForecast, RepeatedEnergy, Task

WINDOW = 8  # as far ahead as the bids of `random_market` look


def first_window(cluster: Cluster) -> Cluster:
    types = {
        name: replace(kind, energy_cost=tuple(kind.energy_cost[:WINDOW]))
        for name, kind in cluster.node_types.items()
    }
    return replace(cluster, slots=WINDOW, node_types=types)


def known_costs(cluster: Cluster) -> EnergyForecast:
    # Beyond the horizon nothing is asked for that counts.
    return RepeatedEnergy(cluster)


def in_window(task: Task) -> Task:
    """The task as a rolling market reads it: its own costs are those from its arrival on."""
    own = task.operating_cost
    if own is None:
        return task
    ahead = {name: (*costs[task.arrival : task.arrival + WINDOW],) for name, costs in own.items()}
    padded = {name: costs + (0.0,) * (WINDOW - len(costs)) for name, costs in ahead.items()}
    return replace(task, operating_cost=padded)
