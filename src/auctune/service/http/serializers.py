"""Serializers of API objects: OpenAI's fields, and the field `market`."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from fastapi.responses import Response

from auctune.domain.epoch_metrics import COLUMNS, step_metrics
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.service.fair_queue import in_thread
from auctune.service.files.repository import FileRecord
from auctune.service.jobs.quotes import QUOTE_TTL_SECONDS, Quote
from auctune.service.jobs.request import checkpoint_name, model_name
from auctune.service.jobs.terms import default_terms_record
from auctune.service.storage.event_log import EventRow, EventType
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.core.projection import EventMessage, JobProjection

JSON = dict[str, Any]


async def json_in_thread(read: Callable[[], JSON]) -> Response:
    """Return as a response what a read returns; it is read and serialized in a thread."""
    body = await in_thread(lambda: orjson.dumps(read()))
    return Response(body, media_type="application/json")


def page_view(data: list[Any], *, has_more: bool = False) -> JSON:
    """Return a page of a list as an API object."""
    return {"object": "list", "data": data, "has_more": has_more}


def file_view(record: FileRecord) -> JSON:
    """Return a file as an API object."""
    details = {} if record.detail is None else {"status_details": record.detail}
    expiry = {} if record.expires_at is None else {"expires_at": int(record.expires_at)}
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": int(record.created_at),
        **expiry,
        "filename": record.filename,
        "purpose": record.purpose.value,
        "status": record.status.value,
        **details,
    }


def job_view(row: JobReadModel, projection: JobProjection[Any], clock: SlotClock) -> JSON:
    """Return a job as an API object, by the projection and clock of its zone."""
    body = row.body
    request, training, progress = body["request"], body["training"], body["progress"]
    used = {
        "n_epochs": training["epochs"],
        "batch_size": training["batch_size"],
        "learning_rate_multiplier": request["learning_rate_multiplier"],
    }
    is_over = body["finished_at"] is not None
    finish = None if is_over else projection.finish(row, clock)
    return {
        "id": row.id,
        "object": "fine_tuning.job",
        "created_at": int(row.created_at),
        "model": request["model"],
        "training_file": request["training_file"],
        "validation_file": request["validation_file"],
        "hyperparameters": used,
        "method": _method(training, used),
        "organization_id": request["organization_id"],
        "seed": training["seed"],
        "status": row.status.value,
        "result_files": body["files"],
        "trained_tokens": progress["tokens"] if progress and is_over else None,
        "fine_tuned_model": _model_name(row) if row.status == "succeeded" else None,
        "finished_at": int(body["finished_at"]) if is_over else None,
        "estimated_finish": None if finish is None else int(finish),
        "error": body["error"],
        "integrations": request.get("integrations"),
        "metadata": request["metadata"],
        "market": {
            **projection.market(row, clock),
            "alternatives": [_alternative(one) for one in request.get("alternatives", ())],
            "default_terms": request.get("default_terms", {}),
        },
    }


def _model_name(row: JobReadModel) -> str:
    return model_name(row.body["request"], row.id)


def quote_view(quote: Quote) -> JSON:
    """Return a quote as an API object."""
    return {
        "id": quote.id,
        "object": "quote",
        "created_at": int(quote.at),
        "expires_at": int(quote.at + QUOTE_TTL_SECONDS),
        "expires_time": to_rfc3339(int(quote.at + QUOTE_TTL_SECONDS)),
        "zone": quote.zone,
        "kind": quote.kind,
        "model": quote.request.model,
        "training_file": quote.request.training_file,
        "seed": quote.training.seed,
        **quote.offer.to_response(),
        "alternatives": [_alternative(one.to_record()) for one in quote.alternatives],
        "default_terms": default_terms_record(quote.request),
        "notes": list(quote.notes),
    }


def _alternative(record: JSON) -> JSON:
    finish = record["finish"]
    return {**record, "finish_time": None if finish is None else to_rfc3339(finish)}


def event_view(row: EventRow, messages: Mapping[str, EventMessage]) -> JSON:
    """Return an event of a job, whose type is in `messages`, as an API object."""
    template, body = messages[row.type], orjson.loads(row.body)
    is_metrics = row.type == EventType.TRAINED
    return {
        "id": f"ftevent-{row.seq}",
        "object": "fine_tuning.job.event",
        "created_at": int(row.at),
        "level": template.level,
        "message": template.message(body),
        "type": "metrics" if is_metrics else "message",
        "data": _metrics(body) if is_metrics else _facts(row, body, template.data_fields),
    }


def _facts(row: EventRow, body: JSON, names: tuple[str, ...]) -> JSON:
    return {"type": row.type, "slot": row.slot, **{name: body[name] for name in names}}


def _metrics(body: JSON) -> JSON:
    result = body["result"]
    steps = step_metrics(result)
    return {
        **dict.fromkeys(COLUMNS),
        "step": result["steps"],
        **(steps[-1] if steps else {}),
        "rows": result["rows"],
        "total_rows": result["total_rows"],
        "tokens": result["tokens"],
        "slot": body["slot"],
        "steps": steps,
    }


def checkpoint_view(job: JobReadModel, checkpoint: JSON) -> JSON:
    """Return the adapter of an epoch as a checkpoint object."""
    metrics, file = checkpoint["metrics"], checkpoint["file"]
    measured = {
        "step": metrics["step"],
        "train_loss": metrics["train_loss"],
        "train_mean_token_accuracy": metrics["train_accuracy"],
        "full_valid_loss": metrics["valid_loss"],
        "full_valid_mean_token_accuracy": metrics["valid_accuracy"],
    }
    return {
        "id": checkpoint_id(checkpoint),
        "object": "fine_tuning.job.checkpoint",
        "created_at": int(job.body["finished_at"]),
        "fine_tuned_model_checkpoint": checkpoint_name(_model_name(job), metrics["step"]),
        "fine_tuning_job_id": job.id,
        "metrics": {name: one for name, one in measured.items() if one is not None},
        "step_number": metrics["step"],
        "epoch": metrics["epoch"],
        "result_file": file,
    }


def checkpoint_id(checkpoint: JSON) -> str:
    """Return the id of the adapter of an epoch: that of its file, with another prefix."""
    return "ftckpt-" + str(checkpoint["file"]).removeprefix("file-")


def _method(training: Mapping[str, Any], used: Mapping[str, Any]) -> JSON:
    if training["method"] != "supervised":
        used = {**used, "beta": training["beta"]}
    return {"type": training["method"], training["method"]: {"hyperparameters": used}}
