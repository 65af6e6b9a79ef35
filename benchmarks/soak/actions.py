"""Actions of clients: bid, retry, accept quotes, dry-run, read, change jobs, make mistakes."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from soak.client import Client, JobRequest
from soak.zones import DATA_SETS

_INVALID_FIELDS: tuple[dict[str, Any], ...] = (
    {"market": {"bid": "-1", "deadline": "+60s", "zone": "owned"}},
    {"market": {"bid": "1", "deadline": "yesterday", "zone": "owned"}},
    {"market": {"bid": "1", "zone": "owned"}},
    {"market": {"bid": "much", "deadline": "+60s"}},
    {"market": {"bid": "1", "deadline": "+60s", "zone": "nowhere"}},
    {"market": {"target_loss": 1.0, "deadline": "+100d", "max_cost": "1", "zone": "pool"}},
    {"market": {"target_loss": 1.0, "deadline": "+60s", "max_cost": "1", "zone": "rented"}},
    {"market": {"target_loss": -1, "deadline": "+60s", "max_cost": "1", "zone": "pool"}},
    {"market": {"target_loss": 1.0, "deadline": "+60s", "max_cost": "1", "zone": "owned"}},
    {"market": {"bid": "1", "deadline": "+60s", "lora": {"rank": 0}}},
    {"market": {"quote": "quote-unknown", "line": 0}},
    {"model": "gpt-unknown"},
    {"training_file": "file-unknown"},
    {"hyperparameters": {"n_epochs": 0}},
    {"seed": "seven"},
    {"unknown_field": 1},
)
_INVALID_BODIES = (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": "tiny"}')
# The recent part of a client's record that actions draw from.
_MAX_REQUESTS, _MAX_JOBS, _MAX_CHANGED = 300, 200, 12


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a client may do next.

    Attributes:
        name: for the record.
        weight: relative frequency.
        run: sends its requests, and records the responses.
    """

    name: str
    weight: float
    run: Callable[[Client], None]


def act(client: Client, actions: Sequence[Action], mean_pause_seconds: float) -> None:
    """Run random actions of a client until the environment requests a stop."""
    weights = [action.weight for action in actions]
    stop = client.environment.stop_requested
    while not stop.wait(client.rng.expovariate(1 / mean_pause_seconds)):
        action = client.rng.choices(actions, weights)[0]
        client.record.actions[action.name] += 1
        action.run(client)


def make_actions(clients: Sequence[Client]) -> tuple[Action, ...]:
    """Return all actions; `clients` are those whose jobs a client may try to read."""
    return (
        Action("bid", 62.0, _bid),
        Action("retry", 4.0, _retry),
        Action("accept a quote", 6.0, _accept_quote),
        Action("dry run", 4.0, _dry_run),
        Action("invalid request", 5.0, _send_invalid),
        Action("read a job", 20.0, _read_job),
        Action("list jobs", 2.0, _list_jobs),
        Action("read a foreign job", 1.0, lambda client: _read_foreign_job(client, clients)),
        Action("cancel", 1.5, lambda client: _change(client, "cancel")),
        Action("pause", 2.0, lambda client: _change(client, "pause")),
        Action("resume", 3.0, lambda client: _change(client, "resume")),
        Action("upload", 0.7, lambda client: client.upload(client.rng.choice(list(DATA_SETS)))),
    )


def _bid(client: Client) -> None:
    request = client.bid()
    client.request_job_until_answered(request)
    # Some are repeated although they were answered.
    if request.job_ids and "idempotency-key" in request.headers and client.rng.random() < 0.1:
        client.request_job(request)


def _retry(client: Client) -> None:
    recent = client.record.requests[-_MAX_REQUESTS:]
    if candidates := [one for one in recent if one.headers and one.job_ids]:
        client.request_job(client.rng.choice(candidates))


def _accept_quote(client: Client) -> None:
    """Accept a random line of a quote, or the estimate of a metered zone."""
    fields = json.loads(client.bid().body)
    token = fields.pop("metadata")["token"]
    response = client.send("POST", "/v1/quotes", json.dumps(fields).encode())
    if response is None or response.status != 200:
        return
    quote = response.body
    terms, price = {"quote": quote["id"]}, None
    if quote["lines"]:
        line = client.rng.choice(quote["lines"])
        terms, price = {**terms, "line": line["line"]}, line["price"]
    body = json.dumps({"market": terms, "metadata": {"token": token}}).encode()
    headers = {"idempotency-key": token}
    client.request_job_until_answered(
        JobRequest(token, body, headers, is_repeatable=True, agreed_price=price)
    )


def _dry_run(client: Client) -> None:
    request = client.bid({"what_if": True})
    request.may_create_job = False
    client.request_job(request)


def _send_invalid(client: Client) -> None:
    """Send a request that must be refused without a trace."""
    rng, valid = client.rng, json.loads(client.bid().body)
    raw = rng.choice(_INVALID_BODIES) if rng.random() < 0.2 else None
    invalid = {**valid, **rng.choice(_INVALID_FIELDS)}
    body = json.dumps(invalid).encode() if raw is None else raw
    token = valid["metadata"]["token"]
    request = JobRequest(token, body, {}, is_repeatable=False, may_create_job=False)
    response = client.request_job(request)
    if response is not None and not 400 <= response.status < 500:
        client.record.violations.append(f"{body!r} was answered with {response.status}")


def _read_job(client: Client) -> None:
    if jobs := client.record.open_jobs or list(client.record.jobs.values())[-_MAX_JOBS:]:
        client.refresh(client.rng.choice(jobs).id)


def _list_jobs(client: Client) -> None:
    response = client.send("GET", "/v1/fine_tuning/jobs?limit=50")
    for view in [] if response is None else response.body["data"]:
        if view["id"] in client.record.jobs:
            client.observe(view)


def _read_foreign_job(client: Client, clients: Sequence[Client]) -> None:
    other = client.rng.choice(clients).record
    if other.user == client.record.user or not other.jobs:
        return
    job = client.rng.choice(list(other.jobs))
    response = client.send("GET", f"/v1/fine_tuning/jobs/{job}")
    if response is not None and response.status != 404:
        client.record.violations.append(f"{client.record.user} can read {job} of {other.user}")


def _change(client: Client, verb: str) -> None:
    jobs = [job for job in client.record.open_jobs if job.is_paused == (verb == "resume")]
    # Newer jobs are more likely to be still open than jobs that were last read long ago.
    if jobs:
        client.change(client.rng.choice(jobs[-_MAX_CHANGED:]).id, verb)
