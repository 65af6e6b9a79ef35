"""Models that answer: the bases of zones, and each user's own fine-tuned models."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import orjson

from auctune.domain import AuctuneError
from auctune.service.datasets.start_models import TunedModel, find_tuned_model, tuned_models
from auctune.service.fair_queue import in_thread, in_turns
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.fine_tuned import PREFIX
from auctune.service.storage import Queries

_OWNER = "auctune"
_PAGE = 50
_MAX_OWNERS = 100


class ModelNotFoundError(AuctuneError):
    """There is no model of this name, or it is another user's."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"the model {model[:100]!r} does not exist, or you have no access to it; "
            "GET /v1/models lists yours"
        )


@dataclass(frozen=True, slots=True)
class Model:
    """A model that answers.

    Attributes:
        name: that requests use.
        base: name of its base.
        created_at: when its base was first offered, or its job ended, in unix time.
        owner: id of the user that has trained it.
        file: with its adapter; None: it is the base itself.
        uses_vllm: whether vLLM computes its answers.
    """

    name: str
    base: str
    created_at: float
    owner: str
    file: FileRecord | None = None
    uses_vllm: bool = False


class ModelCatalog:
    """Finds and lists models.

    Args:
        bases: when they were first offered, in unix time, by name; in the order of lists.
        aliases: other names, each for a base.
        vllm_bases: that vLLM answers for.
    """

    def __init__(
        self,
        bases: Mapping[str, float],
        aliases: Mapping[str, str],
        vllm_bases: Collection[str],
        queries: Queries,
        files: FileRepository,
    ) -> None:
        self._bases = bases
        self._aliases = aliases
        self._vllm_bases = vllm_bases
        self._queries = queries
        self._files = files
        # By job, of the owners that asked last.
        self._models: OrderedDict[str, dict[str, TunedModel]] = OrderedDict()

    async def find(self, name: str, owner: str) -> Model:
        """Return a base, or a model of the owner, or a checkpoint of one; aliases keep their name.

        Raises:
            ModelNotFoundError: if there is none, or its adapter has been deleted.
        """
        if (base := self._aliases.get(name, name)) in self._bases:
            return replace(self._base(base), name=name)
        if name.startswith(PREFIX):
            found = await in_thread(find_tuned_model, self._queries, name, owner)
            file = None if found is None else await self._files.get(found.file)
            if found is not None and file is not None and found.base in self._bases:
                uses_vllm = found.base in self._vllm_bases
                return Model(name, found.base, found.created_at, owner, file, uses_vllm)
        raise ModelNotFoundError(name)

    async def list(self, owner: str) -> list[Model]:
        """Return all bases, and the owner's models, newest first; checkpoints are not listed."""
        jobs = await in_thread(self._queries.succeeded, owner)
        models = await self._read_models(owner, jobs)
        files = await in_thread(self._queries.result_ids, owner)
        tuned = [
            Model(model.name, model.base, model.created_at, owner)
            for model in map(models.get, jobs)
            if model is not None and model.file in files and model.base in self._bases
        ]
        return [*map(self._base, self._bases), *tuned]

    def forget(self, owner: str) -> None:
        """Forget the names of an owner's models: they have texts that are erased."""
        self._models.pop(owner, None)

    async def _read_models(self, owner: str, jobs: Sequence[str]) -> Mapping[str, TunedModel]:
        """Return the models of jobs by their ids; those of one owner are read once."""
        models = self._models.setdefault(owner, {})
        self._models.move_to_end(owner)
        if len(self._models) > _MAX_OWNERS:
            self._models.popitem(last=False)
        async for found in in_turns(self._read_new([job for job in jobs if job not in models])):
            models |= found
        return models

    def _read_new(self, jobs: Sequence[str]) -> Iterator[dict[str, TunedModel]]:
        for first in range(0, len(jobs), _PAGE):
            some, after, has_more = jobs[first : first + _PAGE], None, True
            while has_more:
                page = self._queries.jobs_by_id(some, after)
                models = [
                    (row.id, tuned_models(row.id, orjson.loads(row.body))) for row in page.items
                ]
                # The job's own; those of checkpoints follow it.
                yield {job: one for job, of_job in models for one in islice(of_job, 1)}
                has_more = page.has_more
                after = page.items[-1].id if page.items else None

    def _base(self, name: str) -> Model:
        uses_vllm = name in self._vllm_bases
        return Model(name, name, self._bases[name], _OWNER, uses_vllm=uses_vllm)
