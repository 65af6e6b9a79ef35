"""Models that answer: the bases of zones, and each user's own fine-tuned models."""

import re
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import orjson

from auctune.domain import AuctuneError
from auctune.service.accounts.limits import OPEN
from auctune.service.datasets.training_data import find_tuned_model, tuned_models
from auctune.service.fair_queue import in_thread, in_turns
from auctune.service.files.repository import FileRecord, FileRepository, Purpose
from auctune.service.identifiers import JOB_ID
from auctune.service.jobs.request import PREFIX
from auctune.service.storage import Page, Queries, Row, iter_pages
from auctune.service.storage.queries import Status

_OWNER = "auctune"
_PAGE = 200
_MAX_KNOWN = 100_000
_ADAPTER = re.compile(rf"({JOB_ID})\.zip")


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


_Known = dict[str, Model | None]
"""Models by the files with their adapters; None: it has that of no model that answers."""


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
        # Of the owners that asked last.
        self._models: OrderedDict[str, _Known] = OrderedDict()

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
        """Return all bases, and the owner's models, newest first; checkpoints are not listed.

        They are as many as the owner has adapters stored, and are read by page.
        """
        known = self._models.setdefault(owner, {})
        self._models.move_to_end(owner)
        while sum(map(len, self._models.values())) > _MAX_KNOWN:
            self._models.popitem(last=False)
        models = list(map(self._base, self._bases))
        async for some in in_turns(self._read_tuned(owner, known)):
            models += some
        return models

    def forget(self, owner: str) -> None:
        """Forget the names of an owner's models: they have texts that are erased."""
        self._models.pop(owner, None)

    def _read_tuned(self, owner: str, known: _Known) -> Iterator[Sequence[Model]]:
        """Yield the models whose adapters are stored, by page; add what is read to `known`."""

        def read(after: str | None) -> Page[FileRecord]:
            return self._files.page(owner, _PAGE, after, Purpose.RESULT.value)

        for page in iter_pages(read):
            yield from self._read_jobs(owner, page.items, known)
            yield [model for row in page.items if (model := known.get(row.id)) is not None]

    def _read_jobs(
        self, owner: str, results: Sequence[FileRecord], known: _Known
    ) -> Iterator[Sequence[Model]]:
        found = ((_ADAPTER.fullmatch(row.filename), row.id) for row in results)
        files = {match[1]: file for match, file in found if match and file not in known}
        for page in iter_pages(partial(self._queries.jobs_by_id, files)) if files else ():
            for row in page.items:
                file = files[row.id]
                # An adapter is stored before its job has ended.
                if row.status not in OPEN:
                    known[file] = self._tuned(row, owner, file)
            yield ()

    def _tuned(self, row: Row, owner: str, file: str) -> Model | None:
        """Return the model of a job that has ended, if a file has its adapter."""
        if row.owner != owner or row.status != Status.SUCCEEDED:
            return None
        # The job's own; those of checkpoints follow it.
        model = next(tuned_models(row.id, orjson.loads(row.body)), None)
        if model is None or model.file != file or model.base not in self._bases:
            return None
        return Model(model.name, model.base, model.created_at, owner)

    def _base(self, name: str) -> Model:
        uses_vllm = name in self._vllm_bases
        return Model(name, name, self._bases[name], _OWNER, uses_vllm=uses_vllm)
