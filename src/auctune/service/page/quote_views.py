"""Pages of a new job: form, quote and bid."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote as url_text

import orjson
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.charts.renderer import ChartSpec
from auctune.service.http.errors import ApiError, not_found
from auctune.service.http.requests import read_body
from auctune.service.http.routes import files, jobs, zones
from auctune.service.jobs.quotes import QuoteChangedError
from auctune.service.jobs.request import JobRequest
from auctune.service.page.auth import PageRequest, form_values
from auctune.service.page.charts import choices_of, menu_of, spread_of
from auctune.service.page.job_views import filename, job_body
from auctune.service.page.templates import ROOT, in_form

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
