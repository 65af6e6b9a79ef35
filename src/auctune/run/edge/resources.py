"""The market's units as resources of Ray.

A node of a site has `site:ID`, of which each actor takes a sliver, so that it stands there; and
`unit:TYPE` for each resource type, in thousandths, as Ray counts in whole numbers. On a cluster
of others a worker on a GPU also takes Ray's own `GPU`, so that it sees that one alone.
"""

import math
from collections.abc import Mapping

from auctune.domain import InputError
from auctune.edge.market import Site

_THOUSANDTHS = 1000
_SLIVER = 0.0001
# What is left of a product of decimals is not a thousandth.
_SLACK = 1e-6


def site_resource(site: str) -> str:
    """What marks a site's nodes."""
    return f"site:{site}"


def offered(site: Site) -> dict[str, float]:
    """What the node of a site has, rounded up."""
    units = {
        f"unit:{kind}": float(math.ceil(units * _THOUSANDTHS - _SLACK))
        for kind, units in site.capacity.items()
    }
    return {site_resource(site.id): 1.0, **units}


def wanted(site: str, needs: Mapping[str, float]) -> dict[str, float]:
    """What an actor at a site takes, rounded down: what fits the market fits the nodes."""
    units = {
        f"unit:{kind}": float(math.floor(units * _THOUSANDTHS + _SLACK))
        for kind, units in needs.items()
    }
    return {site_resource(site): _SLIVER, **{name: count for name, count in units.items() if count}}


def gpus_wanted(device: str, needs: Mapping[str, float]) -> float:
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
