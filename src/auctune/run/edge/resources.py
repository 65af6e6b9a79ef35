"""The market's units as resources of Ray, and those that are free.

A node of a site has `site:ID`, of which each actor takes a sliver, so that it stands there; and
`unit:TYPE` for each resource type, in thousandths, as Ray counts in whole numbers. On an existing
cluster a worker on a GPU also takes Ray's own `GPU`, so that it sees that one alone.
"""

import math
from collections.abc import Mapping

from auctune.domain import InputError
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.market import Site

_SITE = "site:"
_THOUSANDTHS = 1000
_SLIVER = 0.0001
# Rounding errors of a product of decimals are not a thousandth.
_SLACK = 1e-6


def node_resources(site: Site) -> dict[str, float]:
    """Return the resources of a site's node, rounded up."""
    units = {
        f"unit:{kind}": float(math.ceil(units * _THOUSANDTHS - _SLACK))
        for kind, units in site.capacity.items()
    }
    return {f"{_SITE}{site.id}": 1.0, **units}


def actor_resources(site: str, needs: Mapping[str, float]) -> dict[str, float]:
    """Return what an actor at a site takes, rounded down: what fits the market fits the nodes."""
    units = {
        f"unit:{kind}": float(math.floor(units * _THOUSANDTHS + _SLACK))
        for kind, units in needs.items()
    }
    return {f"{_SITE}{site}": _SLIVER, **{name: count for name, count in units.items() if count}}


def worker_gpus(device: str, needs: Mapping[str, float]) -> float:
    """Return the GPUs that Ray gives a worker on a cluster, of its `gpu` units.

    Ray takes a share of one GPU, or whole ones: what is beyond a whole number is rounded down, as
    a worker computes on one.

    Raises:
        InputError: if it computes on a GPU, and its needs have none.
    """
    if not device.startswith("cuda"):
        return 0.0
    units = needs.get("gpu", 0.0)
    if units <= 0:
        raise InputError("worker.gpu", "is missing", f"GPUs of a worker, as device is {device!r}")
    return units if units < 1 else float(math.floor(units))


def sites_alive() -> set[str]:
    """Return the sites that have a node."""
    return set(_nodes_by_site())


def _nodes_by_site() -> dict[str, list[Mapping[str, float]]]:
    """Return the resources of the living nodes of each site."""
    import ray

    found: dict[str, list[Mapping[str, float]]] = {}
    for node in ray.nodes():
        for name in node["Resources"] if node["Alive"] else ():
            if name.startswith(_SITE):
                found.setdefault(name.removeprefix(_SITE), []).append(node["Resources"])
    return found


class FreeResources:
    """Units of sites that no actor has taken, counted as Ray counts.

    Args:
        free: by site and resource of Ray.
    """

    def __init__(self, free: Mapping[str, Mapping[str, float]]) -> None:
        self._free = {site: dict(units) for site, units in free.items()}

    @classmethod
    def of_nodes(cls) -> "FreeResources":
        """Return all that sites of a single node have.

        Of several nodes, only Ray knows which of them has what is free: such a site has nothing.
        """
        found = _nodes_by_site()
        return cls({site: nodes[0] for site, nodes in found.items() if len(nodes) == 1})

    def reserve(self, site: str, needs: Mapping[str, float], *, force: bool = False) -> bool:
        """Take an actor's units if they are free, and return whether they were.

        Args:
            site: where.
            needs: of the market, by resource type.
            force: take them in any case, as the plan has it.
        """
        free = self._free.setdefault(site, {})
        units = actor_resources(site, needs)
        fits = all(free.get(name, 0.0) >= count for name, count in units.items())
        if fits or force:
            for name, count in units.items():
                free[name] = free.get(name, 0.0) - count
        return fits

    def reserve_slot(self, job: EdgeJob, part: SlotPlan) -> None:
        """Take what a job's slot needs."""
        for site, count in part.workers.items():
            for _ in range(count):
                self.reserve(site, job.worker, force=True)
        self.reserve(part.server, job.server, force=True)
