"""Check settings before anything is built, measured or written.

The models check auctune.toml itself. This module checks what it refers to: parameters of
mechanisms, files, secrets and bases.
"""

import time

from auctune.domain import InputError
from auctune.domain.base_name import resolve_base
from auctune.service.config.cores import divide_cores
from auctune.service.config.models import ServiceConfig
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig
from auctune.service.zones.kinds import find_kind


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
