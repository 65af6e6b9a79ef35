"""Clients against the log: each acknowledged request is one job, decided and sold as answered."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from auctune.service.storage.event_log import EventType, ZoneEvent
from soak.client import ClientRecord, JobChanges, JobRequest
from soak.history import History, JobHistory
from soak.observed_job import JobView

_EVENT_TYPES = {
    "cancel": EventType.CANCELLED,
    "pause": EventType.PAUSED,
    "resume": EventType.RESUMED,
}

SoldCells = Callable[[ZoneEvent], list[dict[str, Any]]]
"""Returns slot and node of each cell that a decision sold."""


def check_clients(
    history: History, clients: Sequence[ClientRecord], sold_cells: SoldCells
) -> Iterator[str]:
    """Check the records of clients against the history of all jobs."""
    by_token: defaultdict[str | None, list[JobHistory]] = defaultdict(list)
    for job in history.jobs.values():
        by_token[job.token].append(job)
    tokens: set[str | None] = set()
    for client in clients:
        yield from client.violations
        for observed in client.jobs.values():
            yield from observed.violations
        for request in client.requests:
            tokens.add(request.token)
            yield from _check_request(request, by_token[request.token], client.user, sold_cells)
        for name, changes in client.changes.items():
            yield from _check_changes(history.jobs.get(name), name, changes)
    yield from (f"a job has the token {one} of no request" for one in by_token.keys() - tokens)


def _check_request(
    request: JobRequest, jobs: list[JobHistory], user: str, sold_cells: SoldCells
) -> Iterator[str]:
    token, recorded = request.token, {job.job for job in jobs}
    if len(recorded) > 1:
        yield f"{token} created {len(recorded)} jobs: {sorted(recorded)}"
    if len(request.job_ids) > 1:
        yield f"{token} was answered with several jobs: {sorted(request.job_ids)}"
    if not request.job_ids <= recorded:
        yield f"{token} was acknowledged as {sorted(request.job_ids)}, which is lost"
    if request.job_ids and request.refusal:
        yield f"{token} was acknowledged, and later refused: {request.refusal}"
    may_exist = request.may_create_job and not request.is_answered
    if recorded and not request.job_ids and not may_exist:
        yield f"{token} created {sorted(recorded)}, and was answered with {request.refusal}"
    for job in jobs:
        if job.owner != user:
            yield f"{job.job} is owned by {job.owner}, and was requested by {user}"
        if request.first_view is not None:
            yield from _check_first_view(request, request.first_view, job, sold_cells)


def _check_first_view(
    request: JobRequest, view: JobView, job: JobHistory, sold_cells: SoldCells
) -> Iterator[str]:
    """Check the first response against the decision and the cells that were sold."""
    market, decision = view["market"], job.decision
    if market["decision"] is None:
        return
    if decision is None:
        yield f"{job.job} was answered as {market['decision']}, and is not decided"
        return
    recorded = decision.body["decision"]
    answered = market["decision"], market["reason"]
    decided = "admitted" if recorded["admitted"] else "rejected", recorded["reason"]
    if answered != decided:
        yield f"{job.job} was answered as {answered}, and decided as {decided}"
    payment = recorded.get("payment") if recorded["admitted"] else None
    if market["metered"] is None and market["payment"] != payment:
        yield f"{job.job} was answered with payment {market['payment']}, and decided for {payment}"
    if market["metered"] is not None and market["metered"]["max_cost"] != recorded["max_cost"]:
        caps = f"{market['metered']['max_cost']}, and decided with {recorded['max_cost']}"
        yield f"{job.job} was answered with a cap of {caps}"
    plan = market["plan"] or {"cells": []}
    cells = [{"slot": cell["slot"], "node": cell["node"]} for cell in plan["cells"]]
    sold = sold_cells(decision)
    if cells != sold:
        yield f"{job.job} was answered with cells {cells}, and sold {sold}"
    if request.agreed_price not in (None, payment) and recorded["admitted"]:
        yield f"{job.job} costs {payment}, and its quote was {request.agreed_price}"


def _check_changes(job: JobHistory | None, name: str, changes: JobChanges) -> Iterator[str]:
    if job is None:
        yield f"{name} was changed by its owner, and is not recorded"
        return
    for verb, event_type in _EVENT_TYPES.items():
        least = changes.acknowledged[verb]
        most = least + changes.unanswered[verb]
        recorded = len(job.events_of(event_type))
        if not least <= recorded <= most:
            yield f"{name}: {verb} is recorded {recorded} times, expected {least} to {most}"
