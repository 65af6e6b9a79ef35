"""How nodes are placed on a Ray cluster, and when one is taken to be gone or missing."""

from dataclasses import dataclass
from importlib.util import find_spec

from auctune.domain import InputError
from auctune.run.executor.messages import NodeSettings

PREFIX = "auctune:"

# A share of a resource that is a mark: what is divided among nodes are CPUs and GPUs.
_SLIVER = 0.001


@dataclass(frozen=True, slots=True)
class RayParams:
    """Of a cluster.

    Attributes:
        address: HOST:PORT of its head; none: one on this machine, started and ended with the
            executor, a Ray node for each node.
        lease_seconds: after which a node ends that hears nothing of its market, and is taken to
            have ended that says nothing.
        missing_seconds: after which a node is lost that no Ray node has room for.
    """

    address: str | None = None
    lease_seconds: float = 8.0
    missing_seconds: float = 15.0

    def __post_init__(self) -> None:
        for name in ("lease_seconds", "missing_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(name, f"{getattr(self, name)!r}", "a number > 0")


def mark_of(node: str) -> str:
    """The custom resource of the Ray node that a node is placed on, unless another is named."""
    return f"{PREFIX}{node}"


def needs_of(settings: NodeSettings, mark: str, *, own_gpu: bool) -> dict[str, float]:
    """What a node takes of its Ray node: its threads or a GPU, and a sliver of its mark.

    Args:
        settings: of the node.
        mark: the custom resource.
        own_gpu: whether Ray is to give it a GPU.
    """
    if settings.device == "cpu":
        return {"CPU": float(settings.threads), mark: _SLIVER}
    return {"GPU": 1.0, mark: _SLIVER} if own_gpu else {mark: _SLIVER}


def check_ray(place: str) -> None:
    """See that Ray is installed.

    Raises:
        InputError: if it is not.
    """
    if find_spec("ray") is None:
        found = "needs Ray, which is not installed"
        raise InputError(place, found, "pip install 'auctune[ray]'")
