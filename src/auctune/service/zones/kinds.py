"""Kinds of zones, by name: auctune's own, and those of installed packages.

A package offers a kind as an entry point of the group `auctune.zone_kinds`; see
docs/how-to/add-a-zone-kind.md.

The models of settings check auctune.toml itself. A kind checks what it refers to, before anything
is built, measured or written: parameters of mechanisms, files, bases.
"""

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from auctune.domain import InputError
from auctune.domain.base_name import resolve_base
from auctune.registry.third_party import ZONE_KINDS, load_entry
from auctune.service.config.models import ServiceConfig
from auctune.service.config.zone import (
    AUCTION,
    EDGE,
    SPOT,
    TIMESHARE,
    LanguageZoneConfig,
    ZoneConfig,
    divide_cores,
)
from auctune.service.zones.auction.kind import AuctionKind
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.edge.kind import EdgeKind
from auctune.service.zones.spot.kind import SpotKind
from auctune.service.zones.timeshare.kind import TimeshareKind

KINDS: Mapping[str, ZoneKind[Any]] = {
    AUCTION: AuctionKind(),
    SPOT: SpotKind(),
    TIMESHARE: TimeshareKind(),
    EDGE: EdgeKind(),
}
"""Auctune's own kinds."""


@cache
def find_kind(name: str) -> ZoneKind[Any]:
    """Return a kind of zone; a package that offers it is loaded at the first call."""
    expected = "an instance of a subclass of ZoneKind"
    loaded = load_entry(ZONE_KINDS, name, KINDS, "zone kind", expected)
    if loaded is None:
        if name not in KINDS:
            found = f"{name!r} is unknown"
            raise InputError("zone kind", found, "the package that offers it to be installed")
        return KINDS[name]
    kind, who = loaded
    if not isinstance(kind, ZoneKind):
        raise InputError("zone kind", f"{who} is {type(kind).__name__}", expected)
    return kind


def check_service(config: ServiceConfig) -> None:
    """Refuse settings that would fail in the middle of a start; divide the cores among zones."""
    for index, zone in enumerate(config.zones):
        place = f"zones[{index}]"
        try:
            find_kind(zone.kind).check(zone, place, time.time())
        except InputError as error:
            raise _attribute_to_key(error, zone, place) from None
    for index, key in enumerate(config.keys):
        key.key(f"keys[{index}]")
    config.wandb.check()
    config.inference.check_vllm(config.zones)
    divide_cores(config.zones)


def check_bases(config: ServiceConfig) -> None:
    """Refuse a base that is neither an existing folder nor named as a model on the hub."""
    for index, zone in enumerate(config.zones):
        if isinstance(zone, LanguageZoneConfig):
            try:
                resolve_base(zone.base, zone.base_folder)
            except InputError as error:
                place = f"zones[{index}].base"
                raise InputError(place, f"{zone.base!r} {error.found}", error.expected) from None


def _attribute_to_key(error: InputError, zone: ZoneConfig, place: str) -> InputError:
    """Return the error with the key of the zone that refers to its file, if it is about one."""
    for key, path in zone.files().items():
        start = error.place.find(path)
        if start >= 0:
            return InputError(f"{place}.{key}: {error.place[start:]}", error.found, error.expected)
    return error
