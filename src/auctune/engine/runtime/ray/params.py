"""Settings of nodes on a Ray cluster: its address, and the resources of a node."""

from importlib.util import find_spec
from typing import Annotated

from pydantic import BaseModel, StringConstraints

from auctune.domain import InputError
from auctune.engine.runtime.nodes import NodeSettings
from auctune.extras import install_command
from auctune.files.schema import STRICT

PREFIX = "auctune:"

# A share of a custom resource that only names a Ray node: what nodes divide are CPUs and GPUs.
_RESOURCE_EPSILON = 0.001

ClusterAddress = Annotated[str, StringConstraints(pattern=r"^[^\s/:]+:[0-9]{1,5}$")]
Resource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]


class RayParams(BaseModel):
    """Table `ray`: `HOST:PORT` of a cluster's head, of which this machine runs a node."""

    model_config = STRICT

    address: ClusterAddress | None = None


def default_node_resource(node: str) -> str:
    """Return the custom resource of the Ray nodes that a node may run on, by default."""
    return f"{PREFIX}{node}"


def resource_requirements(
    settings: NodeSettings, resource: str, *, own_gpu: bool
) -> dict[str, float]:
    """Return what a node takes of its Ray node: its threads or GPUs, and its custom resource.

    Args:
        settings: of the node.
        resource: the custom resource.
        own_gpu: whether Ray is to give it its GPUs.
    """
    needs = {resource: _RESOURCE_EPSILON}
    if settings.device == "cpu":
        return {"CPU": float(settings.threads * settings.num_devices)} | needs
    return {"GPU": float(settings.num_devices)} | needs if own_gpu else needs


def check_ray(place: str) -> None:
    """Check that Ray is installed.

    Raises:
        InputError: if it is not.
    """
    if find_spec("ray") is None:
        found = "needs Ray, which is not installed"
        raise InputError(place, found, install_command("ray"))
