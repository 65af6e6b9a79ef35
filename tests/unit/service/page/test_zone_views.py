"""What a zone's page says of its bids in sum."""

from typing import Any

from auctune.service.page.zone_views import totals_of


def bid(status: str, payment: str | None, *, refunded: bool = False) -> dict[str, Any]:
    decision = "rejected" if payment is None else "admitted"
    decided = {"decision": decision, "status": status, "payment": payment}
    return {**decided, "refunded": refunded, "metered": None}


def test_what_was_given_back_is_no_payment() -> None:
    totals = totals_of(
        [
            bid("succeeded", "0.8381"),
            bid("running", "1.2000"),
            bid("failed", "15.7954", refunded=True),
            bid("failed", None),
        ]
    )
    assert totals["paid"] == "2.0381"
    assert (totals["bids"], totals["admitted"], totals["refunded"]) == (4, 3, 1)
    assert (totals["open"], totals["done"]) == (1, 1)
