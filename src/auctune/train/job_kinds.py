"""Preemptible jobs by the kind and settings that a bundle file names.

| kind | job |
| --- | --- |
| lora | an adapter on a base: settings `base`, `data`, and those of the training |
| MODULE:FUNCTION | what the function returns for (seed, device, **settings): a `PreemptibleJob` |
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from auctune.domain.base_name import resolve_base
from auctune.domain.errors import InputError
from auctune.train.base import load_base
from auctune.train.job import LoraJob
from auctune.train.preemptible import LoraJobFactory, PreemptibleJob

MakeJob = Callable[[], PreemptibleJob]

_MEMBERS = tuple(name for name in vars(PreemptibleJob) if not name.startswith("_"))


class JobKinds:
    """Makes jobs of any kind; adapters on the same base share it.

    Args:
        device: "cpu", "cuda" or "cuda:N".
        beside: folder that relative paths in settings start from.
        cache: folder of bases that are built here.
    """

    def __init__(self, device: str, beside: Path, cache: Path) -> None:
        self._device, self._beside, self._cache = device, beside, cache
        self._factories: dict[str, LoraJobFactory] = {}

    def maker(self, name: str, kind: str, seed: int, settings: Mapping[str, Any]) -> MakeJob:
        """Return a function that makes a job, the same at every call.

        Args:
            name: of the job.
            kind: `lora` or MODULE:FUNCTION.
            seed: of all draws.
            settings: of the kind.

        Raises:
            InputError: naming `kind` or the setting.
        """
        if kind == "lora":
            base = _text(settings, "base") if "base" in settings else "tiny"
            return partial(self._make_lora, self._job(name, seed, settings), base)
        if ":" not in kind:
            raise InputError("kind", repr(kind), "lora or MODULE:FUNCTION")
        return partial(_call, kind, import_function(kind), seed, self._device, dict(settings))

    def _job(self, name: str, seed: int, settings: Mapping[str, Any]) -> LoraJob:
        known = {field.name for field in fields(LoraJob)} - {"id", "seed", "epochs", "schedule"}
        for key in settings:
            if key not in known | {"base"}:
                expected = f"one of {', '.join(sorted(known | {'base'}))}"
                raise InputError(f"settings.{key}", "is an unknown setting", expected)
        if "data" not in settings:
            raise InputError("settings.data", "is missing", "a file of training rows")
        values = {key: value for key, value in settings.items() if key != "base"}
        values["data"] = self._beside / _text(settings, "data")
        modules = values.get("target_modules", [])
        if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
            raise InputError("settings.target_modules", repr(modules), "a list of names")
        if "target_modules" in values:
            values["target_modules"] = tuple(modules)
        try:
            return LoraJob(id=name, seed=seed, schedule="constant", **values)
        except InputError as error:
            raise error.within("settings") from None
        except TypeError as error:
            raise InputError("settings", str(error), "settings of a job") from None

    def _make_lora(self, job: LoraJob, base: str) -> PreemptibleJob:
        if base not in self._factories:
            name = resolve_base(base, self._beside)
            loaded = load_base(name, cache=self._cache, device=self._device)
            self._factories[base] = LoraJobFactory(loaded)
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


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings[key]
    if not isinstance(value, str):
        raise InputError(f"settings.{key}", repr(value), "a text")
    return value
