"""Input and output of the checks: the installation, and findings.

The settings are read with the code of `auctune serve`. If they cannot be read, the checks that do
not depend on them run all the same.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from auctune.domain import AuctuneError, InputError

if TYPE_CHECKING:
    from auctune.service.config.models import ServiceConfig
    from auctune.service.config.zone import DeviceRequirement, ZoneConfig

T = TypeVar("T")

_READ_SECONDS = 10.0


class Severity(StrEnum):
    """Severity of a finding; a service cannot work with an error."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        fix: the command or setting that fixes it; empty if there is nothing to do.
        check: name of the check; `run_checks` sets it.
    """

    severity: Severity
    message: str
    fix: str = ""
    check: str = ""


def ok(message: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(Severity.OK, message)


def warn(message: str, fix: str = "") -> Finding:
    """Return a finding that a service can work with, but that users should know."""
    return Finding(Severity.WARN, message, fix)


def error(message: str, fix: str) -> Finding:
    """Return a finding that keeps a service from working."""
    return Finding(Severity.ERROR, message, fix)


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation to check.

    Attributes:
        data: data folder of the service, absolute; it need not exist.
        url_file: file in which a running service notes its URL.
        online: whether vendors may be contacted.
        settings: the parsed settings; None if they cannot be read.
        settings_error: what is wrong with the settings; empty if nothing is.
        missing_package: the package without which the settings cannot be read, or None.
    """

    config: Path | None
    data: Path
    cache: Path
    url_file: Path
    online: bool
    settings: "ServiceConfig | None"
    settings_error: str = ""
    missing_package: str | None = None

    @property
    def zones(self) -> "list[ZoneConfig]":
        """Zones of the settings; empty if the settings cannot be read."""
        return [] if self.settings is None else self.settings.zones

    def devices(self) -> "Iterator[tuple[str, DeviceRequirement]]":
        """Yield the devices that the zones require, each with its place in the settings."""
        for index, zone in enumerate(self.zones):
            for need in zone.requirements().devices:
                yield f"zones[{index}].{need.place}".rstrip("."), need


def load_installation(
    config: Path | None, data: Path, cache: Path, url_file: Path, *, online: bool
) -> Installation:
    """Load the installation that `auctune serve` would run with these options; write nothing."""
    settings, message, missing = None, "", None
    try:
        # Outside of the time limit, as a busy machine takes seconds for it; and here, as without
        # the extra `service` there are no packages to read settings with.
        from auctune.service.config.models import ServiceConfig, read_config
        from auctune.service.zones.kinds import check_service

        settings = run_with_timeout(
            _READ_SECONDS, lambda: ServiceConfig() if config is None else read_config(config)
        )
        run_with_timeout(_READ_SECONDS, lambda: check_service(settings))
    except ModuleNotFoundError as caught:
        missing = caught.name
        message = f"cannot be read without the package {missing}"
    except CheckTimeoutError as caught:
        message = f"{config}: {caught}"
    except InputError as caught:
        message = str(caught)
    return Installation(config, data.resolve(), cache, url_file, online, settings, message, missing)


class CheckTimeoutError(AuctuneError):
    """A call did not return in time."""


def run_with_timeout(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call returns, or raise what it raises, or CheckTimeoutError.

    The call runs in a thread of its own, as it may hang on a disk, a driver or a silent server. A
    thread that does not return is left until the process ends.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as caught:
            errors.append(caught)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise CheckTimeoutError(f"did not end within {seconds:g} s")
    return results[0]


def nearest_folder(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def write_error(folder: Path) -> str | None:
    """Return why a folder, or the one in which it would be created, cannot be written, or None.

    The trial is a temporary file without a name.
    """
    try:
        with tempfile.TemporaryFile(dir=nearest_folder(folder)) as file:
            file.write(b"x")
            file.flush()
    except OSError as caught:
        return caught.strerror or type(caught).__name__
    return None


def format_gib(num_bytes: float) -> str:
    """Format a number of bytes, in GiB."""
    return f"{num_bytes / (1 << 30):.1f} GiB"


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
