"""Pages of jobs, files and the account."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from auctune.service.accounts.limits import OPEN
from auctune.service.http.errors import ApiError
from auctune.service.http.routes import explanations, files, jobs, ledger, zones
from auctune.service.page.auth import ROOT, PageRequest
from auctune.service.page.charts import losses_of, metered_of, plan_of_job
from auctune.service.page.templates import json_of, render


async def list_files(visit: PageRequest) -> Response:
    """All of one's own."""
    page = await files.list_files(visit.service, visit.who, visit.after("file"), limit=50)
    return render(visit, "files.html", files=page["data"], more=page["has_more"])


async def upload(visit: PageRequest) -> Response:
    """Take a data set in, and go on with a job for it."""
    file = await files.upload(visit.service, visit.who, visit.request)
    return RedirectResponse(f"{ROOT}/new?file={file['id']}", 303)


async def delete(visit: PageRequest) -> Response:
    """Delete a file that no open job needs."""
    await files.delete(visit.service, visit.who, visit.param("file_id"))
    return RedirectResponse(f"{ROOT}/files", 303)


async def content(visit: PageRequest) -> Response:
    """A file's bytes, to be kept and not to be shown."""
    name = visit.param("file_id")
    known = await files.retrieve(visit.service, visit.who, name)
    answer = await files.content(visit.service, visit.who, name)
    called = quote(known["filename"], safe="")
    answer.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{called}"
    return answer


async def filename(visit: PageRequest, file: str | None) -> str | None:
    """Return the name of a file, or its id where the visitor may not see it or it is gone."""
    if file is None:
        return None
    try:
        known = await files.retrieve(visit.service, visit.who, file)
    except ApiError:
        return file
    return str(known["filename"])


# The account: balance and budget.


async def statement_of(visit: PageRequest) -> dict[str, Any]:
    """What somebody owes."""
    return await ledger.statement(visit.service, visit.who)


async def money_page(visit: PageRequest) -> Response:
    """Statement and entries."""
    found = await ledger.entries(visit.service, visit.who, visit.after("entry"), 50)
    return render(
        visit,
        "money.html",
        statement=await statement_of(visit),
        entries=found["data"],
        more=found["has_more"],
    )


# The form of a job, read into a request body; the API validates it.

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_HYPERPARAMETERS = ("n_epochs", "batch_size", "learning_rate_multiplier")
_LORA = ("rank", "alpha", "dropout", "learning_rate", "max_length")


def job_body(values: Mapping[str, str], models: Mapping[str, str]) -> dict[str, Any]:
    """The body of a request for a quote, or of a bid.

    Args:
        values: fields that have something in them.
        models: of the zones, by their names.
    """
    zone = values.get("zone")
    model = models.get(zone) if zone else None
    market: dict[str, Any] = {
        name: values[name] for name in ("bid", "deadline", "zone", "max_cost") if name in values
    }
    numbers = ("share", "risk", "target_loss")
    market |= {name: _number(values[name]) for name in numbers if name in values}
    if "value" in values:
        worth = {"amount": values["value"], "zero_at": values.get("zero_at")}
        market["value"] = {name: one for name, one in worth.items() if one is not None}
    if "sites" in values:
        market["sites"] = _sites(values["sites"])
        # What is not chosen above is one of them.
        files = [file for file in market["sites"].values() if file]
        if files and values.get("training_file") not in files:
            values = {**values, "training_file": files[0]}
    if "repair" in values:
        market["repair"] = True
    lora: dict[str, Any] = {name: _number(values[name]) for name in _LORA if name in values}
    if "truncate" in values:
        lora["truncate"] = True
    if lora:
        market["lora"] = lora
    body: dict[str, Any] = {
        "model": model or values.get("model") or next(iter(models.values()), ""),
        "training_file": values.get("training_file", ""),
        "market": market,
    }
    hyperparameters = {name: _number(values[name]) for name in _HYPERPARAMETERS if name in values}
    if hyperparameters:
        body["hyperparameters"] = hyperparameters
    if "seed" in values:
        body["seed"] = _number(values["seed"])
    if "name" in values:
        body["metadata"] = {"name": values["name"]}
    for name in ("validation_file", "suffix"):
        if name in values:
            body[name] = values[name]
    return body


def _number(text: str) -> int | float | str:
    """A number where it is one; else what was typed, for the API to refuse by name."""
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else float(text)


def _sites(text: str) -> dict[str, str]:
    """Sites and their files, a line each; what is no such line the API refuses by name."""
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        site, _, file = line.partition("=")
        found[site.strip()] = file.strip()
    return found


# A user's jobs: the list, and each with plan, progress and payments.

_PAGES = 5
_OPEN = frozenset(str(status) for status in OPEN)
Shown = dict[str, Any]


async def home(visit: PageRequest) -> Response:
    """Where one begins."""
    return RedirectResponse(f"{ROOT}/{'market' if visit.who.is_operator else 'jobs'}", 303)


async def list_jobs(visit: PageRequest) -> Response:
    """Jobs, newest first."""
    after = visit.after("job")
    found = json_of(await jobs.list_jobs(visit.service, visit.who, visit.request, after, 20))
    return render(
        visit,
        "jobs.html",
        jobs=found["data"],
        more=found["has_more"],
        is_first=after is None,
        statement=await statement_of(visit),
        now=visit.service.now(),
        has_open=any(job["status"] in _OPEN for job in found["data"]),
    )


async def job_page(visit: PageRequest) -> Response:
    """One job."""
    name = visit.param("job_id")
    job = json_of(await jobs.retrieve(visit.service, visit.who, name))
    events = await _events(visit, name)
    metrics = [event["data"] for event in reversed(events) if event["type"] == "metrics"]
    zone = await _zone(visit, job["market"]["zone"])
    plan = None if zone is None else plan_of_job(job, zone)
    losses = losses_of(job, metrics)
    metered = metered_of(job, events)
    draw = visit.context.charts.draw
    return render(
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


async def why(visit: PageRequest) -> Response:
    """Why a bid got its answer."""
    name = visit.param("job_id")
    explained = await explanations.explain(visit.service, visit.who, name)
    return render(visit, "why.html", job=name, why=explained)


def action(
    run: Callable[..., Awaitable[Response]],
) -> Callable[[PageRequest], Awaitable[Response]]:
    """What an owner does with a job: cancel, pause or resume it."""

    async def act(visit: PageRequest) -> Response:
        name = visit.param("job_id")
        await run(visit.service, visit.who, name)
        return RedirectResponse(f"{ROOT}/jobs/{name}", 303)

    return act


async def _events(visit: PageRequest, name: str) -> list[Shown]:
    """Events, newest first; of a very long job only the last ones."""
    events: list[Shown] = []
    after: str | None = None
    for _ in range(_PAGES):
        page = json_of(await jobs.list_events(visit.service, visit.who, name, after, 100))
        events += page["data"]
        if not page["has_more"]:
            break
        after = events[-1]["id"]
    return events


async def _zone(visit: PageRequest, name: str) -> Shown | None:
    """A zone; none: it is closed for good."""
    try:
        return await zones.retrieve_zone(visit.service, visit.who, name)
    except ApiError:
        return None
