"""What can be known of settings before anything is built, measured or written.

A schema sees a file's own words. What they name is looked up here: parameters of mechanisms, files,
secrets.
"""

import time

from auctune.service.settings.service_file import ServiceFile
from auctune.service.zones.kinds import KINDS


def check_service(file: ServiceFile) -> None:
    """Refuse what a start would refuse in the middle.

    Raises:
        InputError: for the first thing that is wrong, with its path in the settings.
    """
    for index, entry in enumerate(file.zones):
        KINDS[entry.kind].check(entry, f"zones[{index}]", time.time())
    for index, key in enumerate(file.keys):
        key.key(f"keys[{index}]")
