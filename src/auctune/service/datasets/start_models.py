"""Fine-tuned models as the start of other jobs."""

import asyncio
import re

import orjson

from auctune.domain import InputError
from auctune.run.data.client import DataClient
from auctune.service.files.repository import FileRepository
from auctune.service.identifiers import JOB_ID
from auctune.service.jobs.fine_tuned import StartModel, job_of, model_name, split_name
from auctune.service.storage import Queries
from auctune.service.storage.read_model import Status


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
        base, file = await self._result(model, owner)
        record = await self._files.get(file)
        if record is None:
            raise InputError("model", f"the result of {model!r} has been deleted", "another model")
        path = self._files.path(record)
        adapter = await asyncio.wrap_future(self._data.adapter(path, "model", owner=owner))
        return StartModel(base, file, adapter)

    async def _result(self, model: str, owner: str) -> tuple[str, str]:
        """Return the base of a model, and the id of the file with its adapter."""
        name, step = split_name(model)
        job = job_of(name)
        row = None
        if re.fullmatch(JOB_ID, job):
            row = await asyncio.to_thread(self._queries.job, job)
        if row is not None and row.owner == owner and row.status == Status.SUCCEEDED:
            body = orjson.loads(row.body)
            request = body["request"]
            # The adapter is the last of the result files.
            files: dict[str | None, str] = {None: body["files"][-1]} if body["files"] else {}
            for one in body["checkpoints"]:
                files[str(one["metrics"]["step"])] = one["file"]
            if step in files and name == model_name(request["model"], request["suffix"], job):
                return request["model"], files[step]
        # The same error if another user has it: it must not reveal other users' models.
        found = f"there is no fine-tuned model {model!r}"
        expected = "the fine_tuned_model of one of your succeeded jobs, or of a checkpoint of it"
        raise InputError("model", found, expected)
