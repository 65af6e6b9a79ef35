"""Where instances of a run are on a Ray cluster."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from auctune.domain.checks import check_positive

_SLIVER = 0.001


@dataclass(frozen=True, slots=True)
class SpotRayParams:
    """Of a cluster.

    Attributes:
        address: HOST:PORT of its head; none: one on this machine, started and ended with the run.
        spot, on_demand: custom resources of the Ray nodes on which either kind of instance is.
        counts_free: whether there are as many spot instances as the cluster has room for, and not
            as the market says.
        missing_seconds: after which a spot instance is not there that no Ray node has room for.
        reach_seconds: how long a cluster is waited for that does not answer.
    """

    address: str | None = None
    spot: str = "auctune:spot"
    on_demand: str = "auctune:on-demand"
    counts_free: bool = False
    missing_seconds: float = 15.0
    reach_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("missing_seconds", "reach_seconds"):
            check_positive(getattr(self, name), name, "a number of seconds > 0")

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "SpotRayParams":
        """What `to_record` gave."""
        return cls(**record)

    def needs(self, mark: str, device: str, threads: int) -> dict[str, float]:
        """What an instance takes of its Ray node: its threads or a GPU, and a sliver of its mark.

        Args:
            mark: of its kind.
            device: on which it computes; of one's own cluster Ray gives no GPU.
            threads: of torch on a CPU.
        """
        if device == "cpu":
            return {"CPU": float(threads), mark: _SLIVER}
        return {mark: _SLIVER} if self.address is None else {"GPU": 1.0, mark: _SLIVER}
