"""What clients were told, against the log: each bid once, decided and planned as answered."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from auctune.service.storage.events import EventType, ZoneEvent
from soak.diary import Deeds, Diary, Request
from soak.log import Log, Story

_KINDS = {"cancel": EventType.CANCELLED, "pause": EventType.PAUSED, "resume": EventType.RESUMED}


Planned = Callable[[ZoneEvent], list[dict[str, Any]]]
"""The cells that a decision sold."""


def check_acknowledged(log: Log, diaries: list[Diary], planned: Planned) -> Iterator[str]:
    """What clients know otherwise than the log."""
    by_token: defaultdict[str | None, list[Story]] = defaultdict(list)
    for story in log.stories.values():
        by_token[story.token].append(story)
    known: set[str | None] = set()
    for diary in diaries:
        yield from diary.wrong
        for job in diary.jobs.values():
            yield from job.wrong
        for request in diary.requests:
            known.add(request.token)
            yield from _check_request(request, by_token[request.token], diary.user, planned)
        for name, deeds in diary.deeds.items():
            yield from _check_deeds(log.stories.get(name), name, deeds)
    yield from (f"nobody asked for {token}" for token in by_token.keys() - known)


def _check_request(
    request: Request, stories: list[Story], owner: str, planned: Planned
) -> Iterator[str]:
    found = {story.job for story in stories}
    if len(found) > 1:
        yield f"{request.token} became {len(found)} jobs: {sorted(found)}"
    if len(request.jobs) > 1:
        yield f"{request.token} was answered with {sorted(request.jobs)}"
    if not request.jobs <= found:
        yield f"{request.token} was acknowledged as {sorted(request.jobs)}, and is lost"
    if request.jobs and request.refused:
        yield f"{request.token} was answered, and refused later: {request.refused}"
    is_unknown = request.lost and not request.is_answered
    if found and not request.jobs and (not request.makes_job or not is_unknown):
        yield f"{request.token} became {sorted(found)}, and was answered with {request.refused}"
    for story in stories:
        if story.owner != owner:
            yield f"{story.job} is {story.owner}'s, where {owner} asked for it"
        if request.first is not None:
            yield from _check_first(request, request.first, story, planned)


def _check_first(
    request: Request, view: dict[str, Any], story: Story, planned: Planned
) -> Iterator[str]:
    """The answer to the first try: a decision, if it had one, and the plan that was sold."""
    part, decision = view["market"], story.decision
    if part["decision"] is None:
        return
    if decision is None:
        yield f"{story.job} was answered as {part['decision']}, and is not decided"
        return
    recorded = decision.body["decision"]
    said = "admitted" if recorded["admitted"] else "rejected"
    paid = recorded.get("payment") if recorded["admitted"] else None
    told = {"decision": part["decision"], "reason": part["reason"]}
    if told != {"decision": said, "reason": recorded["reason"]}:
        yield f"{story.job} was answered {told}, and is on record as {said} {recorded['reason']}"
    if part["metered"] is None and part["payment"] != paid:
        yield f"{story.job} was answered {part['payment']}, and decided for {paid}"
    if part["metered"] is not None and part["metered"]["max_cost"] != recorded["max_cost"]:
        yield f"{story.job} was answered {part['metered']}, and decided {recorded['max_cost']}"
    cells = [
        {n: cell[n] for n in ("slot", "node")} for cell in (part["plan"] or {"cells": []})["cells"]
    ]
    sold = planned(decision)
    if cells != sold:
        yield f"{story.job} was answered with {cells}, and planned as {sold}"
    if request.agreed is not None and recorded["admitted"] and paid != request.agreed:
        yield f"{story.job} costs {paid}, where {request.agreed} was quoted and accepted"


def _check_deeds(story: Story | None, name: str, deeds: Deeds) -> Iterator[str]:
    if story is None:
        yield f"{name} was there for its owner, and is not on record"
        return
    for what, kind in _KINDS.items():
        done, most = deeds.done[what], deeds.done[what] + deeds.unknown[what]
        found = len(story.of(kind))
        if not done <= found <= most:
            yield f"{name}: {what} answered {done} times of {most}, on record {found} times"
