"""A new job: its form, the menu of its prices, and the choice."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.api.errors import ApiError
from auctune.service.api.routes import files, jobs, quotes, zones
from auctune.service.jobs.request import JobRequest
from auctune.service.page.figures import menu_of
from auctune.service.page.guard import ROOT, Visit, form_values
from auctune.service.page.job_form import OTHER_TERMS, job_body
from auctune.service.page.look import body_of, show
from auctune.service.quotes import QuoteChangedError

_COLUMNS = ("line", "finish", "finish_time", "start", "start_time", "price", "vendor", "slots")


async def new_job(visit: Visit) -> Response:
    """The form."""
    chosen = visit.asked("file")
    values: dict[str, str] = {}
    if chosen is not None:
        file = await files.retrieve(visit.market, visit.who, chosen)
        values = {"training_file": chosen, "name": file["filename"].rpartition(".")[0]}
    return await _form(visit, values)


async def ask_quote(visit: Visit) -> Response:
    """Prices for what was filled in; or a bid, where there is one and it was asked for."""
    values = form_values(await visit.request.form())
    listed = await zones.list_zones(visit.market, visit.who)
    body = job_body(values, {zone["id"]: zone["model"] for zone in listed["data"]})
    try:
        if "place_bid" in values:
            return await _submit(visit, body, values)
        asked = jobs.read_request(orjson.dumps(body))
        assert isinstance(asked, JobRequest)
        quote = await quotes.create_quote(visit.market, visit.who, asked)
    except InputError as error:
        wrong = f"{error.place.removeprefix('market.')}: {error.found}; expected {error.expected}"
        return await _form(visit, values, wrong, 400)
    except ApiError as error:
        return await _form(visit, values, error.message, error.status)
    return RedirectResponse(f"{ROOT}/quotes/{quote['id']}", 303)


async def quote_page(visit: Visit) -> Response:
    """The menu."""
    quote = await quotes.retrieve_quote(visit.market, visit.who, visit.param("quote_id"))
    figure = menu_of(quote)
    lines = quote["lines"]
    fields = dict.fromkeys(name for line in lines for name in line)
    return show(
        visit,
        "quote.html",
        quote=quote,
        chart=None if figure is None else await visit.house.charts.draw(figure),
        # What lines of some kinds of zones say beside.
        others=[
            name
            for name in fields
            if name not in _COLUMNS
            and not (name.endswith("_time") and name.removesuffix("_time") in fields)
        ],
        has_vendors=any(line.get("vendor") for line in lines),
        is_changed=visit.asked("changed") is not None,
        now=visit.market.now(),
    )


async def accept(visit: Visit) -> Response:
    """Buy a line."""
    values = form_values(await visit.request.form())
    line = values.get("line", "")
    terms: dict[str, Any] = {"quote": visit.param("quote_id")}
    if line:
        terms["line"] = int(line) if line.isdecimal() else line
    try:
        return await _submit(visit, {"market": terms}, values)
    except QuoteChangedError as error:
        return RedirectResponse(f"{ROOT}/quotes/{error.quote.id}?changed=1", 303)


async def _submit(visit: Visit, body: dict[str, Any], values: Mapping[str, str]) -> Response:
    # A form that is sent twice asks for one job.
    headers = {"idempotency-key": values["once"]} if values.get("once") else {}
    answer = await jobs.submit(visit.market, visit.who, orjson.dumps(body), headers)
    return RedirectResponse(f"{ROOT}/jobs/{body_of(answer)['id']}", 303)


async def _form(
    visit: Visit, values: Mapping[str, str], wrong: str | None = None, status: int = 200
) -> Response:
    listed = await zones.list_zones(visit.market, visit.who)
    held = await files.list_files(visit.market, visit.who, limit=200, purpose="fine-tune")
    return show(
        visit,
        "new_job.html",
        status,
        zones=[zone for zone in listed["data"] if zone["takes_bids"]],
        models=list(dict.fromkeys(zone["model"] for zone in listed["data"])),
        files=held["data"],
        values=values,
        wrong=wrong,
        other_terms=OTHER_TERMS,
    )
