"""From rows to what the API shows: OpenAI's objects, with the market's part beside."""

from decimal import Decimal
from typing import Any

import orjson

from auctune.domain import Reason
from auctune.domain.money import least_above
from auctune.service.files.record import FileRecord
from auctune.service.jobs.time import to_rfc3339
from auctune.service.quotes import SECONDS, Quote
from auctune.service.store.event_log import EventRow
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow, why_rejected

Shown = dict[str, Any]


def file_view(record: FileRecord) -> Shown:
    """A file."""
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created_at),
        "filename": record.filename,
        "purpose": record.purpose.value,
        "status": record.status.value,
        "status_details": record.detail,
        "expires_at": None,
    }


def job_view(row: JobRow, clock: SlotClock) -> Shown:
    """A job.

    Args:
        row: as it stands.
        clock: of its zone.
    """
    body = row.body
    request, training, progress = body["request"], body["training"], body["progress"]
    used = {
        "n_epochs": training["epochs"],
        "batch_size": training["batch_size"],
        "learning_rate_multiplier": request["learning_rate_multiplier"],
    }
    cells, is_over = body["cells"], body["finished_at"] is not None
    finish = clock.ends(cells[-1]["slot"]) if cells else None
    return {
        "id": row.id,
        "object": "fine_tuning.job",
        "created_at": int(row.created_at),
        "model": request["model"],
        "training_file": request["training_file"],
        "validation_file": request["validation_file"],
        "hyperparameters": used,
        "method": {"type": "supervised", "supervised": {"hyperparameters": used}},
        "organization_id": request["organization_id"],
        "seed": training["seed"],
        "status": row.status.value,
        "result_files": body["files"],
        "trained_tokens": progress["tokens"] if progress and is_over else None,
        "fine_tuned_model": model_name(row, request) if row.status == "succeeded" else None,
        "finished_at": int(body["finished_at"]) if is_over else None,
        "estimated_finish": int(finish) if finish is not None and not is_over else None,
        "error": body["error"],
        "integrations": None,
        "metadata": request["metadata"],
        "market": _market(row, body, clock),
    }


def model_name(row: JobRow, request: Shown) -> str:
    """What a trained adapter is called, as OpenAI calls its models."""
    return ":".join(
        ("ft", request["model"], request["suffix"] or "", row.id.removeprefix("ftjob-"))
    )


def _market(row: JobRow, body: Shown, clock: SlotClock) -> Shown:
    decision, task, training = body["decision"], body["task"], body["training"]
    admitted = decision is not None and decision["admitted"]
    reason = None if decision is None else decision["reason"]
    earliest, left = body.get("earliest"), body.get("budget_left")
    return {
        "zone": row.zone,
        "state": body["state"],
        "decision": None if decision is None else ("admitted" if admitted else "rejected"),
        "reason": reason,
        "bid": task["bid"] if task else body["request"]["bid"],
        "payment": decision["payment"] if admitted else None,
        "least_bid": _least_bid(decision),
        "price": None if left is None else decision["price"],
        "budget_left": left,
        "deadline": body["request"]["deadline"],
        "earliest_deadline": None if earliest is None else clock.ends(earliest),
        "refunded": body["refunded"],
        "plan": _plan(body, clock),
        "progress": body["progress"],
        "notes": body["notes"],
        "lora": {
            name: training[name]
            for name in ("rank", "alpha", "dropout", "target_modules", "learning_rate")
        },
    }


def _least_bid(decision: Shown | None) -> str | None:
    """The least bid that would have been admitted; none where no bid would, or it was."""
    if decision is None or decision["reason"] != Reason.UNPROFITABLE or decision["price"] is None:
        return None
    least = least_above(Decimal(decision["price"]))
    return None if least is None else str(least)


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.begins(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.begins(cells[0]["slot"]),
        "finish": clock.ends(cells[-1]["slot"]),
    }


def quote_view(quote: Quote, clock: SlotClock) -> Shown:
    """A quote, in the real clock's time."""
    return {
        "id": quote.id,
        "object": "quote",
        "created_at": int(quote.at),
        "expires_at": int(quote.at + SECONDS),
        "expires_time": to_rfc3339(int(quote.at + SECONDS)),
        "zone": quote.zone,
        "model": quote.request.model,
        "training_file": quote.request.training_file,
        "seed": quote.training.seed,
        "lines": [
            {
                "line": index,
                "price": str(line.price),
                "finish": clock.ends(line.deadline),
                "finish_time": to_rfc3339(clock.ends(line.deadline)),
                "start": clock.begins(line.schedule.start),
                "start_time": to_rfc3339(clock.begins(line.schedule.start)),
                "vendor": line.schedule.vendor,
                "slots": len(line.schedule.cells),
            }
            for index, line in enumerate(quote.menu.lines)
        ],
    }


_LEVELS = {
    Kind.FAILED: "error",
    Kind.JOB_NOTED: "warn",
    Kind.REPLANNED: "warn",
    Kind.VENDOR_CHANGED: "warn",
}


TOLD = (
    Kind.RECEIVED,
    Kind.DECIDED,
    Kind.REPAIRED,
    Kind.VENDOR_CHANGED,
    Kind.TRAINED,
    Kind.REPLANNED,
    Kind.PAUSED,
    Kind.RESUMED,
    Kind.CANCELLED,
    Kind.FINISHED,
    Kind.FAILED,
    Kind.JOB_NOTED,
)
"""Kinds of events that are news to a job's owner."""


def event_view(row: EventRow) -> Shown:
    """An event of a job, of a kind in `TOLD`, for its owner."""
    kind, body = Kind(row.kind), orjson.loads(row.body)
    message = _message(kind, body)
    is_metrics = kind is Kind.TRAINED
    return {
        "id": f"ftevent-{row.seq}",
        "object": "fine_tuning.job.event",
        "created_at": int(row.at),
        "level": _LEVELS.get(kind, "info"),
        "message": message,
        "type": "metrics" if is_metrics else "message",
        "data": _metrics(body) if is_metrics else {"kind": row.kind, "slot": row.slot},
    }


def _message(kind: Kind, body: Shown) -> str:
    match kind:
        case Kind.RECEIVED:
            return "The files are being looked at"
        case Kind.DECIDED:
            return _decided(body)
        case Kind.REPAIRED:
            return f"The data were repaired; {body['size']['rows']} rows remain"
        case Kind.VENDOR_CHANGED:
            return f"{body['why']}; {body['repair']['vendor']} does it instead, at no charge"
        case Kind.TRAINED:
            result = body["result"]
            return f"{result['rows']} of {result['total_rows']} rows trained"
        case Kind.REPLANNED:
            return f"Planned anew, at the price that was agreed: {body['why']}"
        case Kind.PAUSED:
            return "Paused by its owner"
        case Kind.RESUMED:
            return "Resumed"
        case Kind.CANCELLED:
            return "Cancelled by its owner"
        case Kind.FINISHED:
            return "The adapter is ready"
        case Kind.FAILED:
            ending = "; refunded" if body["refund"] else ""
            return f"{body['message']}{ending}"
        case Kind.JOB_NOTED:
            text: str = body["text"]
            return text
    raise AssertionError(kind)


def _decided(body: Shown) -> str:
    decision = body["decision"]
    if decision["admitted"]:
        return f"Admitted for {decision['payment']}"
    least = _least_bid(decision)
    why = f"Rejected ({decision['reason']}): {why_rejected(body)}"
    return why + (f"; {least} would do" if least else "")


def _metrics(body: Shown) -> Shown:
    result = body["result"]
    return {
        "step": result["steps"],
        "train_loss": result["losses"][-1][3] if result["losses"] else None,
        "rows": result["rows"],
        "total_rows": result["total_rows"],
        "tokens": result["tokens"],
        "slot": body["slot"],
        "losses": [[step, loss] for step, _, _, loss in result["losses"]],
        "validation": result["validation"],
    }


def checkpoint_view(row: EventRow, job: JobRow) -> Shown:
    """What a slot of training left, as a checkpoint."""
    result = orjson.loads(row.body)["result"]
    validation = result["validation"]
    return {
        "id": f"ftckpt-{row.seq}",
        "object": "fine_tuning.job.checkpoint",
        "created_at": int(row.at),
        "fine_tuned_model_checkpoint": (
            f"{model_name(job, job.body['request'])}:ckpt-step-{result['steps']}"
        ),
        "fine_tuning_job_id": job.id,
        "metrics": {
            "step": result["steps"],
            "train_loss": result["losses"][-1][3] if result["losses"] else None,
            "full_valid_loss": validation[-1][2] if validation else None,
        },
        "step_number": result["steps"],
    }
