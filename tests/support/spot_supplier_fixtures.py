"""Ways to rent as fixtures."""

from collections.abc import Iterator

import pytest

from support.executor_kinds import KINDS
from support.ray_nodes import RayNodes, ray_nodes
from support.spot_suppliers import ON_DEMAND, SPOT, OnRay, OnThisMachine, Supplier


@pytest.fixture(scope="module")
def rented_nodes() -> Iterator[RayNodes]:
    """A cluster with a node of each kind of instance, and one for the drivers."""
    with ray_nodes(SPOT, ON_DEMAND) as cluster:
        yield cluster


@pytest.fixture(params=KINDS)
def supplier(request: pytest.FixtureRequest) -> Supplier:
    """Each kind in turn; the cluster is there for those that need it."""
    if request.param == "local":
        return OnThisMachine()
    cluster: RayNodes = request.getfixturevalue("rented_nodes")
    return OnRay(cluster.address)
