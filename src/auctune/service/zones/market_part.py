"""The market's part of a job as readers see it, as far as zones of all kinds say the same."""

from typing import Any

from auctune.domain.data_size import DataSize
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
        "notes": [*_data_notes(body["size"], training), *body["notes"]],
        "lora": {name: training[name] for name in trained_by},
    }


def _data_notes(size: dict[str, Any] | None, training: dict[str, Any]) -> tuple[str, ...]:
    """What training loses of the data; images of sites have no `max_length`, and lose nothing."""
    length = training.get("max_length")
    if size is None or length is None:
        return ()
    return DataSize.from_record(size).notes(length)
