"""Fine-tuned models by name, and as the start of other jobs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from auctune.domain import InputError
from auctune.engine.data.client import DataClient
from auctune.service.fair_queue import in_thread
from auctune.service.files.repository import FileRepository
from auctune.service.identifiers import JOB_ID
from auctune.service.jobs.fine_tuned import (
    StartModel,
    checkpoint_name,
    job_of,
    model_name,
    split_name,
)
from auctune.service.request_scope import outside_gate
from auctune.service.storage import Queries
from auctune.service.storage.events import Record
from auctune.service.storage.read_model import Status


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A fine-tuned model, or a checkpoint of one.

    Attributes:
        base: name of its base.
        file: id of the file with its adapter, which may have been deleted.
        created_at: end of its job, in unix time.
        alias: name in place of the base's in `name`, or None.
    """

    name: str
    base: str
    file: str
    created_at: float
    alias: str | None


class StartModels:
    """Finds fine-tuned models by name, and reads their adapters in the data process."""

    def __init__(self, queries: Queries, files: FileRepository, data: DataClient) -> None:
        self._queries = queries
        self._files = files
        self._data = data

    async def find(self, model: str, owner: str) -> StartModel:
        """Return the model of this name that a job of an owner has trained.

        Raises:
            InputError: naming `model`, if there is none, or its adapter cannot be a start.
        """
        found = await self._result(model, owner)
        record = await self._files.get(found.file)
        if record is None:
            raise InputError("model", f"the result of {model!r} has been deleted", "another model")
        path = self._files.path(record)
        adapter = await outside_gate(self._data.adapter(path, "model", owner=owner))
        return StartModel(found.base, found.file, adapter, found.alias)

    async def _result(self, model: str, owner: str) -> TunedModel:
        found = await in_thread(find_tuned_model, self._queries, model, owner)
        if found is None:
            # The same error if another user has it: it must not reveal other users' models.
            raise InputError(
                "model",
                f"there is no fine-tuned model {model!r}",
                "the fine_tuned_model of one of your succeeded jobs, or of a checkpoint of it",
            )
        return found


def find_tuned_model(queries: Queries, model: str, owner: str) -> TunedModel | None:
    """Return the model of this name that a job of an owner has trained, or None."""
    job = job_of(split_name(model)[0])
    row = queries.job(job) if re.fullmatch(JOB_ID, job) else None
    if row is None or row.owner != owner or row.status != Status.SUCCEEDED:
        return None
    models = {one.name: one for one in tuned_models(job, orjson.loads(row.body))}
    return models.get(model)


def tuned_models(job: str, body: Record) -> Iterator[TunedModel]:
    """Yield the model of a succeeded job, by its body, and those of its checkpoints."""
    request, created = body["request"], body["finished_at"]
    name, alias = model_name(request, job), request.get("alias")
    # The adapter is the last of the result files.
    if body["files"]:
        yield TunedModel(name, request["model"], body["files"][-1], created, alias)
    for one in body["checkpoints"]:
        checkpoint = checkpoint_name(name, one["metrics"]["step"])
        yield TunedModel(checkpoint, request["model"], one["file"], created, alias)
