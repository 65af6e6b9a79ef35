"""auctune.toml, read and checked; `auctune init` writes a commented one."""

import ipaddress
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from auctune.device_profile import physical_device
from auctune.domain import InputError
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS
from auctune.schema import STRICT, check_schema
from auctune.service.settings.access_entries import KeyEntry, UserEntry, check_users
from auctune.service.settings.auction_entry import AuctionEntry
from auctune.service.settings.fields import MOST, Count, Positive
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.settings.zone_kinds import AnyZone

_URL = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")


class LimitsEntry(BaseModel):
    """[limits]: of all connections, of each API key, and of each user."""

    model_config = STRICT

    requests_per_second: Positive = 300.0
    burst: Annotated[float, Field(ge=1, le=MOST)] = 600.0
    streams: Count = 20
    open_jobs: Count = 10_000
    upload_bytes: Count = 512 * 1024 * 1024
    row_characters: Count = DEFAULT_MAX_ROW_CHARACTERS
    examination_seconds: Positive = 1800.0
    uploads: Count = 20
    files: Count = 10_000
    stored_bytes: Annotated[int, Field(ge=1, le=10**15)] = 50 * 1024**3
    uploads_per_day: Count = 10_000
    upload_bytes_per_day: Annotated[int, Field(ge=1, le=10**15)] = 50 * 1024**3
    webhooks: Count = 10
    connections: Count = 4096
    requests: Count = 500
    bids_per_day: Count = 100_000
    bid_bytes_per_day: Count = 100_000_000
    reserved_bytes: Annotated[int, Field(ge=0, le=10**15)] = 1024**3


class WebhooksEntry(BaseModel):
    """[webhooks]: notifications of jobs that have ended."""

    model_config = STRICT

    private_addresses: bool = False
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 8
    initial_backoff_seconds: Positive = 5.0


def _one_zone() -> list[ZoneEntry]:
    return [AuctionEntry()]


class ServiceFile(BaseModel):
    """The whole file."""

    model_config = STRICT

    database: str | None = None
    public_url: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8420
    trusted_proxies: list[str] = Field(default_factory=list)
    limits: LimitsEntry = LimitsEntry()
    webhooks: WebhooksEntry = WebhooksEntry()
    zones: Annotated[list[AnyZone], Field(min_length=1)] = Field(default_factory=_one_zone)
    users: list[UserEntry] = Field(default_factory=list)
    keys: list[KeyEntry] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [zone.name for zone in self.zones]
        for index, name in enumerate(names):
            if name in names[:index]:
                place = f"zones[{index}].name"
                raise InputError(place, f"{name!r} is there twice", "unique names")
        _check_gpus(self.zones)
        check_users(self.users, self.keys)
        _check_url(self.public_url)
        _check_proxies(self.trusted_proxies)
        return self

    def beside(self, folder: Path) -> "ServiceFile":
        """The same with paths that start from a folder."""
        zones = [zone.beside(folder) for zone in self.zones]
        keys = [key.beside(folder) for key in self.keys]
        return self.model_copy(update={"zones": zones, "keys": keys})


def read_service_file(path: Path) -> ServiceFile:
    """The settings in a file.

    Raises:
        InputError: naming the file and the field, for the first thing that is wrong.
    """
    try:
        table: Any = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise InputError(str(path), reason, "a file in TOML, as `auctune init` writes it") from None
    except ValueError as error:
        raise InputError(str(path), f"is not TOML ({error})", "a file in TOML") from None
    return check_schema(ServiceFile, table, str(path)).beside(path.parent)


def _check_gpus(zones: Sequence[ZoneEntry]) -> None:
    """Refuse a GPU of this machine in two zones: each would sell all of its time and memory."""
    owners: dict[str, str] = {}
    for index, zone in enumerate(zones):
        for need in zone.needs().devices:
            device = physical_device(need.device)
            if device.startswith("cuda") and owners.setdefault(device, zone.name) != zone.name:
                place = f"zones[{index}].{need.place}".rstrip(".")
                found = f"{need.device!r} is sold by zone {owners[device]} already"
                raise InputError(f"{place}.device", found, "a GPU in one zone only")


def _check_url(url: str | None) -> None:
    expected = "http://host[:port][/path] or https://..., as vendors reach this service"
    if url is not None and not _URL.fullmatch(url):
        raise InputError("public_url", repr(url), expected)


def _check_proxies(proxies: list[str]) -> None:
    for index, proxy in enumerate(proxies):
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            expected = "an IP address, or a network such as 10.0.0.0/8"
            raise InputError(f"trusted_proxies[{index}]", repr(proxy), expected) from None
