"""What can be known of settings before anything is built, measured or written.

A schema sees a file's own words. What they name is looked up here: parameters of mechanisms, files,
secrets.
"""

import time

from auctune.domain import InputError
from auctune.domain.base_name import resolve_base
from auctune.service.settings.language_entry import LanguageZoneEntry
from auctune.service.settings.service_file import ServiceFile
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.zones.kinds import KINDS


def check_service(file: ServiceFile) -> None:
    """Refuse what a start would refuse in the middle.

    Raises:
        InputError: for the first thing that is wrong, with its path in the settings.
    """
    for index, entry in enumerate(file.zones):
        place = f"zones[{index}]"
        try:
            KINDS[entry.kind].check(entry, place, time.time())
        except InputError as error:
            raise _by_key(error, entry, place) from None
    for index, key in enumerate(file.keys):
        key.key(f"keys[{index}]")


def check_bases(file: ServiceFile) -> None:
    """Refuse a base that is neither a folder that is there nor named as a model on the hub.

    Raises:
        InputError: for the first one, with its path in the settings.
    """
    for index, entry in enumerate(file.zones):
        if isinstance(entry, LanguageZoneEntry):
            try:
                resolve_base(entry.base, entry.base_folder)
            except InputError as error:
                place = f"zones[{index}].base"
                raise InputError(place, f"{entry.base!r} {error.found}", error.expected) from None


def _by_key(error: InputError, entry: ZoneEntry, place: str) -> InputError:
    """The error of a file that a zone names, with the key that names it."""
    for key, path in entry.files().items():
        start = error.place.find(path)
        if start >= 0:
            return InputError(f"{place}.{key}: {error.place[start:]}", error.found, error.expected)
    return error
