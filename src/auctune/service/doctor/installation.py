"""What is examined: settings, a data folder, and the machine that they are on.

The settings are read by the code that `auctune serve` reads them with. Where they cannot be read,
what does not depend on them is examined all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.domain import InputError
from auctune.service.doctor.limit import HungError, within

if TYPE_CHECKING:
    from auctune.service.settings.service_file import ServiceFile
    from auctune.service.settings.zone_entry import ZoneEntry
    from auctune.service.settings.zone_needs import DeviceNeed

_READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Installation:
    """One to be examined.

    Attributes:
        config: the file of settings; none: the defaults hold.
        data: folder of the service, absolute; need not be there.
        cache: folder of bases that are built on this machine.
        url_file: in which a service notes its URL while it runs.
        online: whether vendors may be asked whether they are there.
        file: the settings; none: they cannot be read.
        trouble: what is wrong with them; empty: nothing that can be seen in them alone.
        missing: the package without which they cannot be read; none: it is not for that.
    """

    config: Path | None
    data: Path
    cache: Path
    url_file: Path
    online: bool
    file: "ServiceFile | None"
    trouble: str = ""
    missing: str | None = None

    @property
    def zones(self) -> "list[ZoneEntry]":
        """Of the settings; none where they cannot be read."""
        return [] if self.file is None else self.file.zones

    def devices(self) -> "Iterator[tuple[str, DeviceNeed]]":
        """What all zones need, with its place in the settings."""
        for index, zone in enumerate(self.zones):
            for need in zone.needs().devices:
                yield f"zones[{index}].{need.place}".rstrip("."), need


def look_up(
    config: Path | None, data: Path, cache: Path, url_file: Path, *, online: bool
) -> Installation:
    """An installation by what is typed for `auctune serve`; nothing is written.

    Args:
        config, data, cache, url_file, online: as of `Installation`.
    """
    file, trouble, missing = None, "", None
    try:
        file = within(_READ_SECONDS, lambda: _read(config))
        within(_READ_SECONDS, lambda: _check(file))
    except ModuleNotFoundError as error:
        missing = error.name
        trouble = f"cannot be read without the package {missing}"
    except HungError as error:
        trouble = f"{config}: {error}"
    except InputError as error:
        trouble = str(error)
    return Installation(config, data.resolve(), cache, url_file, online, file, trouble, missing)


def _read(config: Path | None) -> "ServiceFile":
    from auctune.service.settings.service_file import ServiceFile, read_service_file

    return ServiceFile() if config is None else read_service_file(config)


def _check(file: "ServiceFile | None") -> None:
    from auctune.service.settings.check import check_service

    assert file is not None
    check_service(file)
