"""Pages of jobs, files and the account, and of a new job: form, quote and bid."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote
from urllib.parse import quote as url_text

import orjson
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.accounts.limits import OPEN
from auctune.service.charts.renderer import ChartSpec
from auctune.service.fair_queue import Use, in_thread, in_turns
from auctune.service.http.errors import ApiError, not_found
from auctune.service.http.requests import MultipartUpload, read_body
from auctune.service.http.routes import files, jobs, ledger, zones
from auctune.service.http.serializers import JSON, file_view
from auctune.service.jobs.quotes import QuoteChangedError
from auctune.service.jobs.request import JobRequest
from auctune.service.page.auth import PageRequest, check_origin, check_token, form_values
from auctune.service.page.charts import (
    choices_of,
    losses_of,
    menu_of,
    metered_of,
    plan_of_job,
    spread_of,
)
from auctune.service.page.evaluation_views import evaluation_form
from auctune.service.page.templates import ROOT, in_form
from auctune.service.service import Service


async def list_files(visit: PageRequest) -> Response:
    """List the user's files."""
    after = visit.after("file")
    page = await in_thread(visit.service.files.page, visit.who.user, 50, after)
    shown = list(map(file_view, page.items))
    stored = await ledger.storage(visit.service, visit.who)
    return visit.render("files.html", files=shown, more=page.has_more, storage=stored)


async def upload(visit: PageRequest) -> Response:
    """Upload a data set, and continue with the form of a job."""
    check_origin(visit.request)
    form = MultipartUpload(visit.request, partial(check_token, visit))
    file = await files.receive_file(visit.service, visit.who, visit.request, form)
    return RedirectResponse(f"{ROOT}/new?file={file['id']}", 303)


async def content(visit: PageRequest) -> Response:
    """Download a file; browsers do not display it."""
    file_id = visit.param("file_id")
    file = await files.retrieve(visit.service, visit.who, file_id)
    response = await files.content(visit.service, visit.who, file_id)
    name = quote(file["filename"], safe="")
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{name}"
    return response


async def filename(visit: PageRequest, file: str | None) -> str | None:
    """Return the name of a file, or its id if it is deleted or belongs to another user."""
    if file is None:
        return None
    try:
        return str((await files.retrieve(visit.service, visit.who, file))["filename"])
    except ApiError:
        return file


async def money_page(visit: PageRequest) -> Response:
    """Show balance, budget and entries of the user's account, and what requests have used."""
    after = visit.after("entry")
    page = await in_thread(ledger.read_entries, visit.service, visit.who, 50, after)
    return visit.render(
        "money.html",
        statement=await ledger.statement(visit.service, visit.who),
        entries=page["data"],
        more=page["has_more"],
        used=visit.service.gate.used.get(visit.who.user, Use()),
    )


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_HYPERPARAMETERS = ("n_epochs", "batch_size", "learning_rate_multiplier")
_LORA = ("rank", "alpha", "dropout", "learning_rate", "max_length")


def job_body(values: Mapping[str, str], models: Mapping[str, str]) -> JSON:
    """Return the request body of a filled-in form; the API validates it.

    `values` are the fields that are not empty, `models` the models by zone.
    """
    zone = values.get("zone")
    model = models.get(zone) if zone else None
    market: JSON = {
        name: values[name] for name in ("bid", "deadline", "zone", "max_cost") if name in values
    }
    numbers = ("share", "risk", "target_loss")
    market |= {name: _number(values[name]) for name in numbers if name in values}
    value = {"amount": values.get("value"), "zero_at": values.get("zero_at")}
    if any(value.values()):
        market["value"] = {name: text for name, text in value.items() if text}
    if "sites" in values:
        market["sites"] = _sites(values["sites"])
        # The training file of such a job is any of its files.
        files = [file for file in market["sites"].values() if file]
        if files and values.get("training_file") not in files:
            values = {**values, "training_file": files[0]}
    if "repair" in values:
        market["repair"] = True
    lora: JSON = {name: _number(values[name]) for name in _LORA if name in values}
    if "truncate" in values:
        lora["truncate"] = True
    if lora:
        market["lora"] = lora
    body: JSON = {
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
    """Return a number, or else the text itself, which the API rejects."""
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else float(text)


def _sites(text: str) -> dict[str, str]:
    """Parse lines SITE=FILE_ID; the API rejects invalid ones."""
    sites: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        site, _, file = (part.strip() for part in line.partition("="))
        if site in sites:
            raise InputError("market.sites", f"duplicate site {site!r}", "one line for each site")
        sites[site] = file
    return sites


_MAX_EVENT_PAGES = 5
# Of a page of events: more steps are less than a pixel apart in the chart of losses.
_MAX_STEPS = 500
_OPEN = frozenset(str(status) for status in OPEN)


async def home(visit: PageRequest) -> Response:
    """Redirect to the first page of the user's role."""
    return RedirectResponse(f"{ROOT}/{'market' if visit.who.is_operator else 'jobs'}", 303)


async def list_jobs(visit: PageRequest) -> Response:
    """List jobs, newest first."""
    after = visit.after("job")
    page = await in_thread(jobs.read_jobs, visit.service, visit.who, 20, after)
    return visit.render(
        "jobs.html",
        jobs=page["data"],
        more=page["has_more"],
        is_first=after is None,
        statement=await ledger.statement(visit.service, visit.who),
        now=visit.service.now(),
        has_open=any(job["status"] in _OPEN for job in page["data"]),
    )


async def job_page(visit: PageRequest) -> Response:
    """Show a job."""
    name = visit.param("job_id")
    job = await jobs.retrieve_job(visit.service, visit.who, name)
    parts = in_turns(_read_events(visit.service, job["market"]["zone"], name))
    events = [event async for part in parts for event in part]
    metrics = [event["data"] for event in reversed(events) if event["type"] == "metrics"]
    zone = await _zone(visit, job["market"]["zone"])
    plan = None if zone is None else plan_of_job(job, zone)
    losses = losses_of(job, metrics)
    metered = metered_of(job, events, zone)
    return visit.render(
        "job.html",
        job=job,
        market=job["market"],
        events=events,
        newest=events[0]["id"].removeprefix("ftevent-") if events else "0",
        metrics=metrics,
        zone=zone,
        plan=await visit.draw(plan),
        losses=await visit.draw(losses),
        metered=await visit.draw(metered),
        files=await _existing(visit, job["result_files"]),
        data=await filename(visit, job["training_file"]),
        validation=await filename(visit, job["validation_file"]),
        is_open=job["status"] in _OPEN,
        evaluation=await evaluation_form(visit, job),
        now=visit.service.now(),
    )


async def why(visit: PageRequest) -> Response:
    """Explain the decision on a bid."""
    name = visit.param("job_id")
    explained = await zones.explain(visit.service, visit.who, name)
    return visit.render("why.html", job=name, why=explained)


async def _existing(visit: PageRequest, names: list[str]) -> list[JSON]:
    """Return the files that have not been deleted."""
    found = []
    for name in names:
        try:
            found.append(await files.retrieve(visit.service, visit.who, name))
        except ApiError:
            continue
    return found


def _read_events(service: Service, zone: str, job: str) -> Iterator[list[JSON]]:
    """Yield the newest events of a job in parts, newest first, with few of the steps of slots."""
    after, has_more, num_pages = None, True, 0
    while has_more and num_pages < _MAX_EVENT_PAGES:
        page = jobs.read_events(service, zone, job, 100, after)
        events: list[JSON] = page["data"]
        slots = [event["data"] for event in events if event["type"] == "metrics"]
        for slot in slots:
            slot["steps"] = _thinned(slot["steps"], max(2, _MAX_STEPS // len(slots)))
        yield events
        after, has_more = events[-1]["id"] if events else None, page["has_more"]
        num_pages += 1


def _thinned(steps: list[JSON], count: int) -> list[JSON]:
    """Return about `count` steps, with the last one and those that have a validation loss."""
    stride = -(-len(steps) // count)
    last = len(steps) - 1
    return [
        step
        for number, step in enumerate(steps)
        if (last - number) % stride == 0 or step["valid_loss"] is not None
    ]


async def _zone(visit: PageRequest, name: str) -> JSON | None:
    try:
        return await zones.retrieve_zone(visit.service, visit.who, name)
    except ApiError:
        return None


_COLUMNS = ("line", "finish", "finish_time", "start", "start_time", "price", "vendor", "slots")


_FIELDS = (
    "training_file", "zone", "model", "name", "deadline", "max_cost", "target_loss", "n_epochs",
    "bid",
)  # fmt: skip
# Fields that are shown on request.
_MORE_FIELDS = (
    "validation_file", "batch_size", "learning_rate_multiplier", "rank", "alpha", "dropout",
    "max_length", "seed", "share", "risk", "suffix", "value", "zero_at", "sites",
)  # fmt: skip


def field_of(place: str) -> str:
    """Return the field of the form that an error is about: the last one that its place names."""
    parts = re.split(r"[.:\[ ]", place)
    return next((one for one in reversed(parts) if one in _FIELDS + _MORE_FIELDS), "")


async def new_job(visit: PageRequest) -> Response:
    """Show the form of a job."""
    chosen = visit.query("file")
    values: dict[str, str] = {}
    if chosen is not None:
        file = await files.retrieve(visit.service, visit.who, chosen)
        values = {"training_file": chosen, "name": file["filename"].rpartition(".")[0]}
        if file["status"] == "error":
            reason = in_form(file.get("status_details") or "cannot be read")
            return await _form(visit, values, reason, "training_file")
    return await _form(visit, values)


async def ask_quote(visit: PageRequest) -> Response:
    """Create a quote from the form, or submit a bid if the user chose to."""
    values = await form_values(visit)
    listed = await zones.list_zones(visit.service, visit.who)
    try:
        body = job_body(values, {zone["id"]: zone["model"] for zone in listed["data"]})
        if "place_bid" in values:
            return await _submit(visit, body, values)
        request = read_body(orjson.dumps(body), JobRequest)
        quote = await jobs.create_quote(visit.service, visit.who, request)
    except InputError as error:
        return await _form(visit, values, in_form(str(error)), field_of(error.place), 400)
    except ApiError as error:
        field = field_of(error.param or "")
        return await _form(visit, values, in_form(error.detail), field, error.status_code)
    return RedirectResponse(f"{ROOT}/quotes/{quote['id']}", 303)


async def quote_page(visit: PageRequest) -> Response:
    """Show a quote, and the offers of other zones."""
    quote = await jobs.retrieve_quote(visit.service, visit.who, visit.param("quote_id"))
    first = await _first(visit, quote)
    lines = quote["lines"]
    fields = dict.fromkeys(name for line in lines for name in line)
    figure, choices = _figure(visit, quote), None
    if first["alternatives"]:
        choices = choices_of(first["alternatives"], quote["zone"], first["created_at"])
    return visit.render(
        "quote.html",
        quote=quote,
        data=await filename(visit, quote["training_file"]),
        chart=await visit.draw(figure),
        alternatives=first["alternatives"],
        beside=first["id"],
        choices=await visit.draw(choices),
        # Further columns of some zone kinds.
        others=[
            name
            for name in fields
            if name not in _COLUMNS
            and not (name.endswith("_time") and name.removesuffix("_time") in fields)
        ],
        has_vendors=any(line.get("vendor") for line in lines),
        is_changed=visit.query("changed") is not None,
        now=visit.service.now(),
    )


async def _first(visit: PageRequest, quote: dict[str, Any]) -> dict[str, Any]:
    """Return the quote that lists the offers of all zones, if this one is for a single zone."""
    beside = visit.query("beside")
    if beside is None:
        return quote
    try:
        return await jobs.retrieve_quote(visit.service, visit.who, beside)
    except ApiError:
        # It has expired.
        return quote


def _figure(visit: PageRequest, quote: dict[str, Any]) -> ChartSpec | None:
    if quote["estimate"] is None:
        return menu_of(quote)
    stored = visit.service.quotes.get(quote["id"], visit.who.user)
    return spread_of(quote, None if stored is None else stored.deadline)


async def ask_zone(visit: PageRequest) -> Response:
    """Create a quote for the same job in one of the zones."""
    values = await form_values(visit)
    name = visit.param("quote_id")
    stored = visit.service.quotes.get(name, visit.who.user)
    if stored is None:
        raise not_found("quote", name)
    market = stored.request.market.model_copy(update={"zone": values.get("zone")})
    request = stored.request.model_copy(update={"market": market})
    quote = await jobs.create_quote(visit.service, visit.who, request)
    beside = values.get("beside", name)
    return RedirectResponse(f"{ROOT}/quotes/{quote['id']}?beside={url_text(beside, safe='')}", 303)


async def accept(visit: PageRequest) -> Response:
    """Accept a line or an estimate of a quote."""
    values = await form_values(visit)
    line = values.get("line", "")
    terms: dict[str, Any] = {"quote": visit.param("quote_id")}
    if line:
        terms["line"] = int(line) if re.fullmatch(r"[0-9]{1,9}", line) else line
    if "max_cost" in values:
        terms["max_cost"] = values["max_cost"]
    try:
        return await _submit(visit, {"market": terms}, values)
    except QuoteChangedError as error:
        return RedirectResponse(f"{ROOT}/quotes/{error.quote.id}?changed=1", 303)


async def _submit(visit: PageRequest, body: dict[str, Any], values: Mapping[str, str]) -> Response:
    # A form that is sent twice creates one job.
    headers = {"idempotency-key": values["once"]} if values.get("once") else {}
    job = await jobs.submit(visit.service, visit.who, orjson.dumps(body), headers)
    return RedirectResponse(f"{ROOT}/jobs/{job['id']}", 303)


async def _form(
    visit: PageRequest,
    values: Mapping[str, str],
    wrong: str | None = None,
    field: str = "",
    status: int = 200,
) -> Response:
    """Show the form, with what is wrong beside the field that it concerns, if any."""
    listed = await zones.list_zones(visit.service, visit.who)
    return visit.render(
        "new_job.html",
        status,
        zones=[zone for zone in listed["data"] if zone["accepting_bids"]],
        models=list(dict.fromkeys(zone["model"] for zone in listed["data"])),
        files=await files.uploads(visit.service, visit.who),
        values=values,
        wrong=wrong,
        field=field,
        more=_MORE_FIELDS,
    )
