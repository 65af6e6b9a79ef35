"""TRAINING.toml: how the jobs of an instance train; docs/reference/edge-files.md.

[default] has keys of `Recipe` for all jobs, [jobs.ID] those of one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.sim.toml_file import read_toml
from auctune.train.edge.recipe import Recipe

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}
_TYPES: dict[str, str] = {
    field.name: getattr(field.type, "__name__", str(field.type)) for field in fields(Recipe)
}


def read_training(path: Path | None, jobs: Iterable[str]) -> dict[str, Recipe]:
    """The recipe of each job.

    Args:
        path: the file, beside which folders are looked for; none: the defaults.
        jobs: ids of the instance's jobs.

    Raises:
        InputError: naming the key.
    """
    known = list(jobs)
    data = {} if path is None else read_toml(path, "a TRAINING.toml")
    place = str(path)
    for name in data:
        if name not in ("default", "jobs"):
            raise InputError(f"{place}: {name}", "is not known", "default or jobs")
    own = _table(data.get("jobs", {}), f"{place}: jobs")
    for job in own:
        if job not in known:
            raise InputError(f"{place}: jobs.{job}", "is no job", "the id of one of the instance's")
    base = _values(data.get("default", {}), f"{place}: default", path)
    return {
        job: _recipe(base | _values(own.get(job, {}), f"{place}: jobs.{job}", path), place, job)
        for job in known
    }


def _recipe(values: Mapping[str, Any], place: str, job: str) -> Recipe:
    try:
        return Recipe(**values)
    except InputError as error:
        raise error.within(f"{place}: job {job}") from None


def _values(given: Any, place: str, path: Path | None) -> dict[str, Any]:
    values = dict(_table(given, place))
    for key, value in values.items():
        if key not in _TYPES:
            raise InputError(f"{place}.{key}", "is not known", ", ".join(_TYPES))
        kind = _TYPES[key]
        if isinstance(value, bool) or not isinstance(value, _KINDS[kind]):
            raise InputError(f"{place}.{key}", f"{value!r}", f"a value of type {kind}")
    if path is not None and values.get("folder"):
        values["folder"] = str((path.parent / values["folder"]).resolve())
    return values


def _table(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(place, f"{value!r}", "a table")
    return value
