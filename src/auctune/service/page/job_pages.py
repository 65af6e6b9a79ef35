"""Jobs of one's own: all of them, and each with its plan, its progress and its money."""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import RedirectResponse, Response

from auctune.service.accounts.limits import OPEN
from auctune.service.http.errors import ApiError
from auctune.service.http.routes import explanations, files, jobs, zones
from auctune.service.page.figures import losses_of, plan_of_job
from auctune.service.page.file_pages import filename
from auctune.service.page.guard import ROOT, Visit
from auctune.service.page.look import body_of, show
from auctune.service.page.metered_figures import metered_of
from auctune.service.page.money_pages import statement_of

_PAGES = 5
_OPEN = frozenset(str(status) for status in OPEN)
Shown = dict[str, Any]


async def home(visit: Visit) -> Response:
    """Where one begins."""
    return RedirectResponse(f"{ROOT}/{'market' if visit.who.is_operator else 'jobs'}", 303)


async def list_jobs(visit: Visit) -> Response:
    """Jobs, newest first."""
    after = visit.after("job")
    found = body_of(await jobs.list_jobs(visit.service, visit.who, visit.request, after, 20))
    return show(
        visit,
        "jobs.html",
        jobs=found["data"],
        more=found["has_more"],
        is_first=after is None,
        statement=await statement_of(visit),
        now=visit.service.now(),
        has_open=any(job["status"] in _OPEN for job in found["data"]),
    )


async def job_page(visit: Visit) -> Response:
    """One job."""
    name = visit.param("job_id")
    job = body_of(await jobs.retrieve(visit.service, visit.who, name))
    events = await _events(visit, name)
    metrics = [event["data"] for event in reversed(events) if event["type"] == "metrics"]
    zone = await _zone(visit, job["market"]["zone"])
    plan = None if zone is None else plan_of_job(job, zone)
    losses = losses_of(job, metrics)
    metered = metered_of(job, events)
    draw = visit.context.charts.draw
    return show(
        visit,
        "job.html",
        job=job,
        market=job["market"],
        events=events,
        newest=events[0]["id"].removeprefix("ftevent-") if events else "0",
        metrics=metrics,
        zone=zone,
        plan=None if plan is None else await draw(plan),
        losses=None if losses is None else await draw(losses),
        metered=None if metered is None else await draw(metered),
        files=[await files.retrieve(visit.service, visit.who, one) for one in job["result_files"]],
        data=await filename(visit, job["training_file"]),
        validation=await filename(visit, job["validation_file"]),
        is_open=job["status"] in _OPEN,
        now=visit.service.now(),
    )


async def why(visit: Visit) -> Response:
    """Why a bid got its answer."""
    name = visit.param("job_id")
    explained = await explanations.explain(visit.service, visit.who, name)
    return show(visit, "why.html", job=name, why=explained)


def action(
    run: Callable[..., Awaitable[Response]],
) -> Callable[[Visit], Awaitable[Response]]:
    """What an owner does with a job: cancel, pause or resume it."""

    async def act(visit: Visit) -> Response:
        name = visit.param("job_id")
        await run(visit.service, visit.who, name)
        return RedirectResponse(f"{ROOT}/jobs/{name}", 303)

    return act


async def _events(visit: Visit, name: str) -> list[Shown]:
    """Events, newest first; of a very long job only the last ones."""
    events: list[Shown] = []
    after: str | None = None
    for _ in range(_PAGES):
        page = body_of(await jobs.list_events(visit.service, visit.who, name, after, 100))
        events += page["data"]
        if not page["has_more"]:
            break
        after = events[-1]["id"]
    return events


async def _zone(visit: Visit, name: str) -> Shown | None:
    """A zone; none: it is closed for good."""
    try:
        return await zones.retrieve_zone(visit.service, visit.who, name)
    except ApiError:
        return None
