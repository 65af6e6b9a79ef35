"""The market's part of a job as readers see it, as far as zones of all kinds say the same."""

from typing import Any

from auctune.service.zones.job_row import JobRow

ADAPTER = ("rank", "alpha", "dropout", "target_modules", "learning_rate")
"""What of its training is shown of a job that trains an adapter."""


def market_part(row: JobRow, trained_by: tuple[str, ...] = ADAPTER) -> dict[str, Any]:
    """The fields of `MarketPart` of the API; what is of a kind of zones is none.

    Args:
        row: of the job.
        trained_by: what of its training is shown.
    """
    body = row.body
    decision, request, training = body["decision"], body["request"], body["training"]
    admitted = decision is not None and decision["admitted"]
    return {
        "zone": row.zone,
        "state": body["state"],
        "decision": None if decision is None else ("admitted" if admitted else "rejected"),
        "reason": None if decision is None else decision["reason"],
        "bid": request["bid"],
        "payment": None,
        "least_bid": None,
        "price": None,
        "budget_left": None,
        "deadline": request["deadline"],
        "earliest_deadline": None,
        "refunded": body["refunded"],
        "plan": None,
        "progress": body["progress"],
        "notes": body["notes"],
        "lora": {name: training[name] for name in trained_by},
    }
