"""Where vendors outside come in: reached from here, and let in to what is lent to them."""

import secrets
from collections.abc import Callable, Iterable
from functools import cached_property

import httpx2
from starlette.types import ASGIApp

from auctune.domain import InputError
from auctune.service.repair.outside import OutsideVendor
from auctune.service.vendors import (
    DataLinks,
    HttpVendor,
    HttpVendorParams,
    LentFiles,
    Secret,
    make_client,
    make_data_app,
)

VENDOR_DATA = "/vendor-data"


class VendorDoor:
    """Shared by all zones: a vendor of this name is the same in each.

    Args:
        url: where the service is reached from outside.
        now: tells unix time.
    """

    def __init__(self, url: str, now: Callable[[], float]) -> None:
        self._now = now
        self._lent = LentFiles()
        self._params: dict[str, HttpVendorParams] = {}
        # A link of an earlier life is of no use; who needs the data is given a new one.
        key = Secret(secrets.token_urlsafe(32))
        self._links = DataLinks(url.rstrip("/") + VENDOR_DATA, key, clock=now)

    def vendors(self, entries: Iterable[HttpVendorParams]) -> tuple[OutsideVendor, ...]:
        """The vendors of a zone.

        Raises:
            InputError: if one has the name of another one of another zone.
        """
        return tuple(self._vendor(params) for params in entries)

    @property
    def app(self) -> ASGIApp | None:
        """What is to be mounted at `VENDOR_DATA`; none: there are no vendors outside."""
        if not self._params:
            return None
        known: dict[str, Secret] = {name: params.secret for name, params in self._params.items()}
        return make_data_app(self._links, self._lent.find, known, self._now)

    async def close(self) -> None:
        """Let go of connections."""
        if "_client" in vars(self):
            await self._client.aclose()

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        return make_client()

    def _vendor(self, params: HttpVendorParams) -> OutsideVendor:
        known = self._params.setdefault(params.name, params)
        if known.url != params.url:
            found = f"{params.url} here, and {known.url} in another zone"
            raise InputError(f"vendor {params.name}: url", found, "one address for one name")
        http = HttpVendor(params, self._links, self._client, self._now)
        return OutsideVendor(http, self._lent, self._now)
