"""What one owes, and what is left of the budget."""

from typing import Any

from starlette.responses import Response

from auctune.service.http.routes import ledger
from auctune.service.page.guard import Visit
from auctune.service.page.look import show


async def statement_of(visit: Visit) -> dict[str, Any]:
    """What somebody owes."""
    return await ledger.statement(visit.service, visit.who)


async def money_page(visit: Visit) -> Response:
    """Statement and entries."""
    found = await ledger.entries(visit.service, visit.who, visit.after("entry"), 50)
    return show(
        visit,
        "money.html",
        statement=await statement_of(visit),
        entries=found["data"],
        more=found["has_more"],
    )
