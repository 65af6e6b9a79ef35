"""Threads by what a bundle's file says of them: a kind and its settings.

| kind | is |
| --- | --- |
| vit, lstm, cnn, resnet18, resnet34, dagger, audio, nlp | a stand-in; with the setting `data`, the same task on the user's own files |
| lora | an adapter on a base: settings `base`, `data`, and those of a job |
| MODULE:FUNCTION | what the function returns for (seed, device, **settings): a `TrainingThread` |
"""  # noqa: E501 (a table's row cannot be broken)

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
from auctune.train.timeshare.lora_thread import LoraPool
from auctune.train.timeshare.real import make_real
from auctune.train.timeshare.stand_in import STAND_INS, make_stand_in
from auctune.train.timeshare.thread import TrainingThread

MakeThread = Callable[[], TrainingThread]

_METHODS = tuple(name for name in vars(TrainingThread) if not name.startswith("_"))


class Catalogue:
    """Makes threads; those of one base share it.

    Args:
        device: "cpu", "cuda" or "cuda:N".
        beside: folder that relative paths in settings start from.
        cache: folder of bases that are built here.
    """

    def __init__(self, device: str, beside: Path, cache: Path) -> None:
        self._device, self._beside, self._cache = device, beside, cache
        self._pools: dict[str, LoraPool] = {}

    def maker(self, name: str, kind: str, seed: int, settings: Mapping[str, Any]) -> MakeThread:
        """What makes a thread, always the same.

        Args:
            name: of the thread.
            kind: see above.
            seed: of all that is drawn.
            settings: of the kind.

        Raises:
            InputError: naming `kind` or the setting.
        """
        if kind == "lora":
            base = _text(settings, "base") if "base" in settings else "tiny"
            return partial(self._lora, self._job(name, seed, settings), base)
        if ":" in kind:
            return partial(_call, import_function(kind), seed, self._device, dict(settings))
        if kind not in STAND_INS:
            expected = f"lora, MODULE:FUNCTION, or one of {', '.join(STAND_INS)}"
            raise InputError("kind", repr(kind), expected)
        _refuse_others(settings, {"data"})
        if "data" in settings:
            return partial(make_real, kind, self._path(settings), seed, self._device)
        return partial(make_stand_in, kind, seed, self._device)

    def _job(self, name: str, seed: int, settings: Mapping[str, Any]) -> LoraJob:
        known = {field.name for field in fields(LoraJob)} - {"id", "seed", "epochs", "schedule"}
        _refuse_others(settings, known | {"base"})
        if "data" not in settings:
            raise InputError("settings.data", "is missing", "a file of training rows")
        values = {key: value for key, value in settings.items() if key != "base"}
        values["data"] = self._path(settings)
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

    def _path(self, settings: Mapping[str, Any]) -> Path:
        return self._beside / _text(settings, "data")

    def _lora(self, job: LoraJob, base: str) -> TrainingThread:
        if base not in self._pools:
            name = resolve_base(base, self._beside)
            self._pools[base] = LoraPool(load_base(name, cache=self._cache, device=self._device))
        # The trainer's own checkpoints are never written: the pool keeps the threads'.
        return self._pools[base].thread(job, self._cache / "none")


def import_function(path: str) -> Callable[..., Any]:
    """The function MODULE:FUNCTION.

    Raises:
        InputError: if there is no such module or function.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError("kind", f"{path!r} ({error})", "MODULE:FUNCTION") from None
    except Exception as error:
        # A module is code: it may end with anything, or be no Python at all.
        what = f"{path!r} cannot be imported ({type(error).__name__}: {error})"
        raise InputError("kind", what, "MODULE:FUNCTION") from None
    if not callable(found):
        raise InputError("kind", f"{path!r} is no function", "MODULE:FUNCTION")
    function: Callable[..., Any] = found
    return function


def _call(
    function: Callable[..., Any], seed: int, device: str, settings: dict[str, Any]
) -> TrainingThread:
    thread: TrainingThread = function(seed, device, **settings)
    missing = [name for name in _METHODS if not hasattr(thread, name)]
    if missing:
        found = f"{function.__name__} returned {type(thread).__name__} without {missing[0]!r}"
        raise InputError("kind", found, "a function that returns a TrainingThread")
    return thread


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings[key]
    if not isinstance(value, str):
        raise InputError(f"settings.{key}", repr(value), "a text")
    return value


def _refuse_others(settings: Mapping[str, Any], known: set[str]) -> None:
    for key in settings:
        if key not in known:
            expected = f"one of {', '.join(sorted(known))}"
            raise InputError(f"settings.{key}", "is an unknown setting", expected)
