"""The service's routes as methods."""

import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from auctune.client.connection import Connection, Record
from auctune.client.errors import ServiceError
from auctune.client.event_stream import StreamedEvent
from auctune.client.job import Job
from auctune.client.terms import Terms
from auctune.client.work import Work, acceptance, request
from auctune.domain.errors import InputError

_JOBS = "/v1/fine_tuning/jobs"
_PAGE = 100


class Client:
    """Speaks to one service; a context. Errors are those of `Connection.get`.

    Args:
        connection: to it; closed with this.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.url = connection.address.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__()

    def zones(self) -> list[Record]:
        """The zones that take bids, the default one first."""
        return self._list("/v1/zones")

    def zone(self, name: str | None, model: str | None = None, kind: str | None = None) -> Record:
        """The zone that a request means.

        Args:
            name: its name; none: the first one with the model.
            model: its base; none: any.
            kind: of the first one, if there is any of this kind; none: any.

        Raises:
            InputError: if there is none of this name, or with this base.
        """
        zones = self.zones()
        for zone in sorted(zones, key=lambda one: kind not in (None, one["kind"])):
            if name == zone["id"] or (name is None and model in (None, zone["model"])):
                return zone
        option, given, key = ("--model", model, "model") if name is None else ("--zone", name, "id")
        known = ", ".join(dict.fromkeys(zone[key] for zone in zones))
        raise InputError(option, f"{given!r} is unknown", f"one of {known}")

    def upload(self, path: Path) -> str:
        """Return the id of a data set that the service has now.

        It is uploaded, unless a file of one's own with the same content and name is there already.

        Raises:
            OSError: if it cannot be read.
        """
        fields = {"purpose": "fine-tune"}
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        same = self._connection.get(
            "/v1/files", sha256=digest, filename=path.name, limit=1, **fields
        )["data"]
        # One that was refused may have been so for a reason that is over.
        if same and same[0]["status"] != "error":
            return str(same[0]["id"])
        return str(self._connection.upload("/v1/files", path, fields)["id"])

    def is_looked_at(self, file: str) -> bool:
        """Whether the service knows what is in an upload, so that a bid is decided at once."""
        path = f"/v1/files/{quote(file, safe='')}"
        return bool(self._connection.get(path)["status"] != "uploaded")

    def files(self) -> Iterator[Record]:
        """Files of one's own, newest first."""
        return self._pages("/v1/files")

    def delete_file(self, file: str) -> None:
        """Delete a file that no open job needs."""
        self._connection.delete(f"/v1/files/{quote(file, safe='')}")

    def quote(self, work: Work, terms: Terms) -> Record:
        """What work would cost, by the time at which it is done."""
        return self._connection.post("/v1/quotes", request(work, terms))

    def submit(self, work: Work, terms: Terms) -> Job:
        """Bid for a job. However often it is sent, it is one job."""
        return self._make(request(work, terms))

    def accept(
        self,
        quote: str,
        line: int | None = None,
        bid: str | None = None,
        name: str | None = None,
        max_cost: str | None = None,
    ) -> Job:
        """Take a line of a quote, or its estimate, as one job.

        Args:
            quote: its id.
            line: its number; none: it has an estimate.
            bid: what it is worth; none: the line's price.
            name: of the job; none: as it was quoted.
            max_cost: cap of a job with an estimate; none: as quoted, or shown.

        Raises:
            ServiceError: with code `quote_changed` and a new `quote` beside it, if what was shown
                is not to be had any more.
        """
        return self._make(acceptance(quote, line, bid, name, max_cost))

    def job(self, name: str) -> Job:
        """A job by its id."""
        return Job.read(self._connection.get(f"{_JOBS}/{quote(name, safe='')}"))

    def jobs(self) -> Iterator[Job]:
        """Jobs of one's own, newest first."""
        return map(Job.read, self._pages(_JOBS))

    def explain(self, name: str) -> Record:
        """Why a job's bid got its answer."""
        return self._connection.get(f"{_JOBS}/{quote(name, safe='')}/explanation")

    def newest_event(self, name: str) -> int:
        """The number of the newest event of a job; 0: there is none yet."""
        found = self._connection.get(f"{_JOBS}/{quote(name, safe='')}/events", limit=1)["data"]
        return int(found[0]["id"].removeprefix("ftevent-")) if found else 0

    def events(self, name: str, after: int) -> Iterator[StreamedEvent]:
        """What happens to a job after an event, as it happens, until the job is over.

        Args:
            name: its id.
            after: number of the last event that is known.
        """
        return self._connection.events(f"{_JOBS}/{quote(name, safe='')}/events/stream", after)

    def act(self, name: str, action: str) -> Job:
        """Cancel, pause or resume a job."""
        path = f"{_JOBS}/{quote(name, safe='')}/{action}"
        return Job.read(self._connection.post(path, {}))

    def fetch(self, file: str, target: Path) -> None:
        """Write the content of a file."""
        self._connection.download(f"/v1/files/{quote(file, safe='')}/content", target)

    def webhooks(self) -> list[Record]:
        """Addresses that are told when a job of one's own is over."""
        return self._list("/v1/webhooks")

    def add_webhook(self, url: str) -> Record:
        """Have an address told; `secret` is by what it knows that it is told by this service."""
        return self._connection.post("/v1/webhooks", {"url": url})

    def delete_webhook(self, webhook: str) -> None:
        """Have an address told nothing any more."""
        self._connection.delete(f"/v1/webhooks/{quote(webhook, safe='')}")

    def prices(self, zone: str) -> Record:
        """Prices and use by slot and node; for operators."""
        return self._connection.get(f"/v1/zones/{quote(zone, safe='')}/prices")

    def rented(self, zone: str) -> Record:
        """The market and the holdings of a zone that rents, by slot; for operators."""
        return self._connection.get(f"/v1/zones/{quote(zone, safe='')}/rented")

    def shares(self, zone: str) -> Record:
        """Who shares a zone's pool, and how; for operators."""
        return self._connection.get(f"/v1/zones/{quote(zone, safe='')}/shares")

    def sites(self, zone: str) -> Record:
        """Sites of a zone, their prices and use by slot; for operators."""
        return self._connection.get(f"/v1/zones/{quote(zone, safe='')}/sites")

    def act_on_zone(self, zone: str, action: str) -> Record:
        """Pause or resume a zone; for operators."""
        return self._connection.post(f"/v1/zones/{quote(zone, safe='')}/{action}", {})

    def act_on_node(self, zone: str, node: str, action: str) -> Record:
        """Drain or return a node; for operators. The zone as it stands then."""
        names = quote(zone, safe=""), quote(node, safe="")
        return self._connection.post("/v1/zones/{}/nodes/{}/{}".format(*names, action), {})

    def statement(self) -> Record:
        """What one owes, and what is left of one's budget."""
        return self._connection.get("/v1/ledger")

    def entries(self) -> Iterator[Record]:
        """Movements on one's own account, newest first."""
        return self._pages("/v1/ledger/entries")

    def balances(self) -> dict[str, str] | None:
        """Balances of all accounts; none: this key is no operator's."""
        try:
            accounts: dict[str, str] = self._connection.get("/v1/ledger/balances")["accounts"]
        except ServiceError as error:
            if error.status == 403:
                return None
            raise
        return accounts

    def people(self, kind: str) -> list[Record]:
        """All `users`, `teams` or `keys`; for operators."""
        return self._list(f"/v1/{kind}")

    def add(self, kind: str, body: Record) -> Record:
        """Add one of `users`, `teams` or `keys`, or change what is said of it; for operators."""
        return self._connection.post(f"/v1/{kind}", body)

    def revoke(self, key: str) -> Record:
        """End a key, at once; for operators."""
        return self._connection.delete(f"/v1/keys/{quote(key, safe='')}")

    def erase(self, user: str) -> Record:
        """Erase a user's data; for operators. How much of it there was."""
        return self._connection.delete(f"/v1/users/{quote(user, safe='')}/data")

    def _make(self, body: Record) -> Job:
        return Job.read(self._connection.post(_JOBS, body, secrets.token_urlsafe(24)))

    def _pages(self, path: str) -> Iterator[Record]:
        after: str | None = None
        while True:
            page = self._connection.get(path, limit=_PAGE, after=after)
            yield from page["data"]
            if not page["has_more"] or not page["data"]:
                return
            after = page["data"][-1]["id"]

    def _list(self, path: str) -> list[Any]:
        found: list[Any] = self._connection.get(path)["data"]
        return found
