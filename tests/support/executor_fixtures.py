"""Executors of both kinds as fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.executor_kinds import KINDS, ExecutorKind, Local, OnRay
from support.ray_nodes import RayNodes, ray_nodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A cluster with nodes alpha and beta, and one for the drivers."""
    with ray_nodes("alpha", "beta") as cluster:
        yield cluster


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> ExecutorKind:
    """Each kind in turn; the cluster is there for those that need it."""
    if request.param == "local":
        return Local()
    cluster: RayNodes = request.getfixturevalue("nodes")
    return OnRay(cluster.address, tmp_path / "market")
