"""What can be known of settings before anything is built, measured or written.

A schema sees a file's own words. What they name is looked up here: parameters of mechanisms, files,
secrets.
"""

import time
from pathlib import Path

from auctune.device_profile import read_profile
from auctune.domain import InputError
from auctune.registry import check_settings
from auctune.service.executors import nodes_of
from auctune.service.settings.service_file import ServiceFile
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.zone.energy import zone_energy


def check_service(file: ServiceFile) -> None:
    """Refuse what a start would refuse in the middle.

    Raises:
        InputError: for the first thing that is wrong, with its path in the settings.
    """
    for index, entry in enumerate(file.zones):
        _check_zone(entry, f"zones[{index}]")
    for index, key in enumerate(file.keys):
        key.key(f"keys[{index}]")


def _check_zone(entry: ZoneEntry, place: str) -> None:
    try:
        check_settings(*entry.mechanism)
    except InputError as error:
        path = f"{place}.auction.{error.place}"
        raise InputError(path, error.found, error.expected) from None
    nodes_of(entry).check(f"{place}.executor")
    for index, vendor in enumerate(entry.vendors):
        vendor.params(f"{place}.vendors[{index}]")
    for kind in entry.node_types.values():
        if kind.profile is not None:
            read_profile(Path(kind.profile))
    zone_energy(entry, time.time())
