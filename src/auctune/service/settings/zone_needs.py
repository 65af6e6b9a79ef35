"""What a zone needs of the machine and of the world, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """Nodes of one type.

    Attributes:
        place: of the type, in the zone's settings; empty: the zone itself.
        device: `cpu`, `cuda` or `cuda:N`.
        profile: path of the device's profile; none: it is measured.
        num_nodes: that have it.
    """

    place: str
    device: str
    profile: str | None
    num_nodes: int


@dataclass(frozen=True, slots=True)
class ZoneNeeds:
    """All that a zone needs beside its base.

    Attributes:
        devices: of its nodes.
        vendors: URLs of vendors outside, by name.
    """

    devices: tuple[DeviceNeed, ...] = ()
    vendors: Mapping[str, str] = field(default_factory=dict)
