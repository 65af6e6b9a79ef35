"""The service's routes as methods, and local files as uploads."""

import hashlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote as percent_encode

from auctune.client.errors import ServiceError
from auctune.client.job import Job
from auctune.client.spec import JobSpec, JobTerms, acceptance_request, job_request
from auctune.client.transport import Record, ServerSentEvent, Transport
from auctune.domain.errors import InputError

_JOBS = ("fine_tuning", "jobs")
_PAGE = 100
_FILE_ID = "file-"
_EDGE = "edge"
_JOB = "ftjob-"
_DATA = {"purpose": "fine-tune"}
# An earlier upload is used again if it is there for so long.
_REUSED_SECONDS = 3600.0


class Client:
    """Client of one service; a context manager. Errors are those of `Transport.get`.

    Args:
        transport: to the service; closed with the client.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.url = transport.endpoint.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.__exit__()

    def zones(self) -> list[Record]:
        """List the zones, the default one first."""
        return self._list("zones")

    def zone(self, name: str | None, model: str | None = None, kind: str | None = None) -> Record:
        """Find a zone.

        Args:
            name: its id, or `None` for the first zone with the model.
            model: its base model, or `None` for any.
            kind: preferred kind of the first zone, or `None` for any.

        Raises:
            InputError: if no zone has this id or this base model.
        """
        zones = self.zones()
        for zone in sorted(zones, key=lambda one: kind not in (None, one["kind"])):
            if name == zone["id"] or (name is None and model in (None, zone["model"])):
                return zone
        option, value, key = ("--model", model, "model") if name is None else ("--zone", name, "id")
        available = ", ".join(dict.fromkeys(zone[key] for zone in zones))
        raise InputError(option, f"{value!r} is unknown", f"one of {available}")

    def zone_state(self, zone: str) -> Record:
        """Get prices, utilization and jobs of a zone; fields depend on `kind`. For operators."""
        return self._transport.get(_path("zones", zone, "state"))

    def zone_action(self, zone: str, action: str) -> Record:
        """Pause or resume a zone; for operators."""
        return self._transport.post(_path("zones", zone, action), {})

    def node_action(self, zone: str, node: str, action: str) -> Record:
        """Drain or return a node, and return its zone; for operators."""
        return self._transport.post(_path("zones", zone, "nodes", node, action), {})

    def files(self) -> Iterator[Record]:
        """List the user's files, newest first."""
        return self._pages("files")

    def upload(self, path: Path) -> str:
        """Upload a data set and return its id; a file with this name and content is reused.

        Raises:
            OSError: if it cannot be read.
        """
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        same = self._transport.get(
            _path("files"), sha256=digest, filename=path.name, limit=1, **_DATA
        )["data"]
        # A file that failed its check may pass now, and one that expires may be gone too soon.
        least = time.time() + _REUSED_SECONDS
        if same and same[0]["status"] != "error" and same[0].get("expires_at", least) >= least:
            return str(same[0]["id"])
        return self.upload_new(path)

    def upload_new(self, path: Path, expires_seconds: int | None = None) -> str:
        """Upload a data set as a new file and return its id.

        Args:
            path: of the data set.
            expires_seconds: time after which the service deletes it, or `None`.

        Raises:
            OSError: if it cannot be read.
        """
        fields = dict(_DATA)
        if expires_seconds is not None:
            fields["expires_after[anchor]"] = "created_at"
            fields["expires_after[seconds]"] = str(expires_seconds)
        return str(self._transport.upload(_path("files"), path, fields)["id"])

    def is_processed(self, file: str) -> bool:
        """Return whether the service has checked an upload, so that a bid is decided at once."""
        return bool(self._transport.get(_path("files", file))["status"] != "uploaded")

    def fetch(self, file: str, target: Path) -> None:
        """Download a file's content."""
        self._transport.download(_path("files", file, "content"), target)

    def delete_file(self, file: str) -> None:
        """Delete a file; refused while an open job needs it."""
        self._transport.delete(_path("files", file))

    def prepare(self, spec: JobSpec, terms: JobTerms) -> JobSpec:
        """Upload a spec's local files, and fill in the model of the zone that would run the job.

        Raises:
            InputError: if a file cannot be read, or the zone is unknown.
        """
        kind = _EDGE if spec.sites else None
        model = spec.model or str(self.zone(terms.zone, kind=kind)["model"])
        if model.startswith(_JOB):
            model = self._fine_tuned(model)
        validation = None if spec.validation_file is None else self._file_id(spec.validation_file)
        sites = {site: self._file_id(file) for site, file in spec.sites.items()}
        # A job whose data are all at sites names the first site's file as its training file.
        training = spec.training_file
        training = next(iter(sites.values()), None) if training is None else self._file_id(training)
        return replace(
            spec, model=model, training_file=training, validation_file=validation, sites=sites
        )

    def _fine_tuned(self, name: str) -> str:
        job = self.job(name)
        model = job.record["fine_tuned_model"]
        if model is None:
            raise InputError("--model", f"{name} has no model: it is {job.state}", "a finished job")
        return str(model)

    def quote(self, spec: JobSpec, terms: JobTerms) -> Record:
        """Quote a job: its price by finish time, or an estimate of its cost."""
        return self._transport.post(_path("quotes"), job_request(spec, terms))

    def submit(self, spec: JobSpec, terms: JobTerms) -> Job:
        """Submit a job; a retried request does not submit it twice."""
        return self._submit(job_request(spec, terms))

    def accept(
        self,
        quote: str,
        line: int | None = None,
        bid: str | None = None,
        name: str | None = None,
        max_cost: str | None = None,
    ) -> Job:
        """Accept a line of a quote, or its estimate, as a job.

        Args:
            quote: the quote's id.
            line: the line's number, or `None` if the quote has an estimate.
            bid: the line's price by default.
            name: the job's name; by default as quoted.
            max_cost: cap of a job with an estimate; by default as quoted.

        Raises:
            ServiceError: with code `quote_changed` and a new quote in `extra["quote"]`, if the
                offer is not available any more.
        """
        return self._submit(acceptance_request(quote, line, bid, name, max_cost))

    def job(self, job: str) -> Job:
        """Get a job by its id."""
        return Job.read(self._transport.get(_path(*_JOBS, job)))

    def jobs(self) -> Iterator[Job]:
        """List the user's jobs, newest first."""
        return map(Job.read, self._pages(*_JOBS))

    def job_action(self, job: str, action: str) -> Job:
        """Cancel, pause or resume a job."""
        return Job.read(self._transport.post(_path(*_JOBS, job, action), {}))

    def explain(self, job: str) -> Record:
        """Explain the decision on a job's bid."""
        return self._transport.get(_path(*_JOBS, job, "explanation"))

    def newest_event(self, job: str) -> int:
        """Return the number of a job's newest event, or 0 if it has none yet."""
        newest = self._transport.get(_path(*_JOBS, job, "events"), limit=1)["data"]
        return _event_number(newest[0]) if newest else 0

    def metrics(self, job: str, after: int) -> tuple[list[Record], int]:
        """Return the metrics of a job's steps, oldest first, and the number of its newest event.

        Args:
            job: its id.
            after: number of an event; only steps of later ones are returned.
        """
        newest, events = after, []
        for event in self._pages(*_JOBS, job, "events"):
            number = _event_number(event)
            if number <= after:
                break
            newest = max(newest, number)
            if event["type"] == "metrics":
                events.append(event)
        return [step for event in reversed(events) for step in event["data"]["steps"]], newest

    def events(self, job: str, after: int) -> Iterator[ServerSentEvent]:
        """Stream a job's events after a number, until the job is over."""
        return self._transport.events(_path(*_JOBS, job, "events", "stream"), after)

    def webhooks(self) -> list[Record]:
        """List the user's webhooks."""
        return self._list("webhooks")

    def add_webhook(self, url: str) -> Record:
        """Register a URL to be called when a job ends or a budget is used; `secret` signs it."""
        return self._transport.post(_path("webhooks"), {"url": url})

    def delete_webhook(self, webhook: str) -> None:
        """Delete a webhook."""
        self._transport.delete(_path("webhooks", webhook))

    def statement(self) -> Record:
        """Get the user's balance and remaining budget."""
        return self._transport.get(_path("ledger"))

    def entries(self) -> Iterator[Record]:
        """List the entries of the user's account, newest first."""
        return self._pages("ledger", "entries")

    def balances(self) -> dict[str, str] | None:
        """Get the balances of all accounts, or `None` without an operator's key."""
        try:
            accounts: dict[str, str] = self._transport.get(_path("ledger", "balances"))["accounts"]
        except ServiceError as error:
            if error.status == 403:
                return None
            raise
        return accounts

    def export_focus(self, month: str | None, target: Path) -> None:
        """Download the costs of a month such as 2026-11 as a FOCUS file, of the current one so far.

        With an operator's key they are those of all users.
        """
        self._transport.download(_path("ledger", "focus"), target, month=month)

    def list_accounts(self, kind: str) -> list[Record]:
        """List all `users`, `teams` or `keys`; for operators."""
        return self._list(kind)

    def put_account(self, kind: str, body: Record) -> Record:
        """Add or change one of `users`, `teams` or `keys`; for operators."""
        return self._transport.post(_path(kind), body)

    def change_key(self, key: str, body: Record) -> Record:
        """Change a key; for operators."""
        return self._transport.post(_path("keys", key), body)

    def revoke_key(self, key: str) -> Record:
        """Revoke a key immediately; for operators."""
        return self._transport.delete(_path("keys", key))

    def erase(self, user: str) -> Record:
        """Erase a user's data, and return the number of each kind of item; for operators."""
        return self._transport.delete(_path("users", user, "data"))

    def _file_id(self, file: str) -> str:
        """Return the id of a file named by its id, or by its path and then uploaded."""
        if file.startswith(_FILE_ID) and not Path(file).exists():
            return file
        try:
            return self.upload(Path(file))
        except OSError as error:
            reason = error.strerror or "unknown error"
            raise InputError(file, f"cannot be read ({reason})", "a data set") from None

    def _submit(self, body: Record) -> Job:
        return Job.read(self._transport.post(_path(*_JOBS), body, secrets.token_urlsafe(24)))

    def _pages(self, *parts: str) -> Iterator[Record]:
        after: str | None = None
        while True:
            page = self._transport.get(_path(*parts), limit=_PAGE, after=after)
            yield from page["data"]
            if not page["has_more"] or not page["data"]:
                return
            after = page["data"][-1]["id"]

    def checkpoints(self, job: str) -> list[Record]:
        """List the adapters of a finished job's last epochs, newest first."""
        return self._list("fine_tuning", "jobs", job, "checkpoints")

    def _list(self, *parts: str) -> list[Any]:
        records: list[Any] = self._transport.get(_path(*parts))["data"]
        return records


def _event_number(event: Record) -> int:
    return int(event["id"].removeprefix("ftevent-"))


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(percent_encode(part, safe="") for part in parts)
