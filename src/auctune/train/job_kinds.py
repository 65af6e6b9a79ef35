"""Preemptible jobs by the kind and settings that a bundle file names.

| kind | job |
| --- | --- |
| lora | an adapter on a base: settings `base`, `data`, `start_from` and those of the training |
| MODULE:FUNCTION | what the function returns for (seed, device, **settings): a `PreemptibleJob` |
"""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from auctune.domain.base_name import resolve_base
from auctune.domain.errors import InputError
from auctune.files.schema import STRICT, check_schema, hyperparameters_of, with_hyperparameters
from auctune.train.adapter_files import read_start
from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory, PreemptibleJob

MakeJob = Callable[[], PreemptibleJob]

_MEMBERS = tuple(name for name in vars(PreemptibleJob) if not name.startswith("_"))


# The epochs and the schedule of a job that trains until it has its loss are given.
@with_hyperparameters(without=("epochs", "schedule", "warmup_ratio", "seed", "patience"))
class LoraSettings(BaseModel):
    """Settings of the kind `lora`."""

    model_config = STRICT

    base: str = "tiny"
    data: str
    start_from: str | None = None

    def job(self, name: str, seed: int, beside: Path) -> LoraJob:
        """Return the training job.

        Args:
            name: its id.
            seed: of all draws.
            beside: folder that paths start from.

        Raises:
            InputError: if the adapter that it starts from cannot be used.
        """
        path = None if self.start_from is None else beside / self.start_from
        start = None if path is None else read_start(path, "start_from")[0]
        return LoraJob(
            name,
            beside / self.data,
            start_from=path,
            start_digest=None if start is None else start.digest,
            seed=seed,
            schedule="constant",
            **hyperparameters_of(self, start),
        )


class JobKinds:
    """Makes jobs of any kind; adapters on the same base share it.

    Args:
        device: "cpu", "cuda" or "cuda:N".
        beside: folder that relative paths in settings start from.
        cache: folder of bases that are built here.
        gradient_checkpointing: of adapters, as of `MultiLoraTrainer`'s `checkpointing`.
    """

    def __init__(
        self, device: str, beside: Path, cache: Path, gradient_checkpointing: int = 0
    ) -> None:
        self._device, self._beside, self._cache = device, beside, cache
        self._gradient_checkpointing = gradient_checkpointing
        self._factories: dict[str, LoraJobFactory] = {}

    def maker(
        self, name: str, kind: str, seed: int, settings: Mapping[str, Any]
    ) -> tuple[MakeJob, LoraJob | None]:
        """Return a function that makes a job, the same at every call, and which adapter that is.

        Args:
            name: of the job.
            kind: `lora` or MODULE:FUNCTION.
            seed: of all draws.
            settings: of the kind.

        Returns:
            The function; and the adapter, or None if the job trains something else.

        Raises:
            InputError: naming `kind` or the setting.
        """
        if kind == "lora":
            try:
                lora = check_schema(LoraSettings, dict(settings), "")
                job = lora.job(name, seed, self._beside)
            except InputError as error:
                place = f"settings.{error.place}"
                raise InputError(place, error.found, error.expected) from None
            return partial(self._make_lora, job, lora.base), job
        if ":" not in kind:
            raise InputError("kind", repr(kind), "lora or MODULE:FUNCTION")
        function = import_function(kind)
        return partial(_call, kind, function, seed, self._device, dict(settings)), None

    def _make_lora(self, job: LoraJob, base: str) -> PreemptibleJob:
        if base not in self._factories:
            name = resolve_base(base, self._beside)
            loaded = load_base(name, cache=self._cache, device=self._device)
            checkpointing = self._gradient_checkpointing
            self._factories[base] = LoraJobFactory(loaded, gradient_checkpointing=checkpointing)
        # The pool writes the checkpoints, not the trainer.
        return self._factories[base].make(job, self._cache / "none")


def import_function(path: str) -> Callable[..., Any]:
    """Return the function MODULE:FUNCTION.

    Raises:
        InputError: if the module or function does not exist.
    """
    module, _, name = path.partition(":")
    try:
        function: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError("kind", f"{path!r} ({error})", "MODULE:FUNCTION") from None
    except Exception as error:
        # Importing runs code, which may raise anything.
        found = f"{path!r} cannot be imported ({type(error).__name__}: {error})"
        raise InputError("kind", found, "MODULE:FUNCTION") from None
    if not callable(function):
        raise InputError("kind", f"{path!r} is not a function", "MODULE:FUNCTION")
    return function  # type: ignore[no-any-return]


def _call(
    path: str, function: Callable[..., Any], seed: int, device: str, settings: dict[str, Any]
) -> PreemptibleJob:
    job: PreemptibleJob = function(seed, device, **settings)
    missing = [name for name in _MEMBERS if not hasattr(job, name)]
    if missing:
        found = f"{path} returned {type(job).__name__} without {missing[0]!r}"
        raise InputError("kind", found, "a function that returns a PreemptibleJob")
    return job
