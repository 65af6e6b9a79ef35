"""Fine-tuned models: their names, and one as the start of another job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain.start_adapter import StartAdapter

PREFIX = "ft:"
"""Prefix of their names, as at OpenAI."""
_STEP = ":ckpt-step-"


@dataclass(frozen=True, slots=True)
class StartModel:
    """The fine-tuned model that a job starts from.

    Attributes:
        base: name of its base model.
        file: id of the file with its adapter.
        adapter: what its file was found to hold.
        alias: name in place of the base's in the name of the model, or None.
    """

    base: str
    file: str
    adapter: StartAdapter
    alias: str | None = None


def model_name(request: Mapping[str, Any], job: str) -> str:
    """Return the name of the model that a job has trained, by the record of its request.

    OpenAI's format: ft:MODEL:SUFFIX:ID. MODEL is the alias that the request named, if it did:
    clients know by OpenAI's names whom to ask for answers (litellm) and what fits (llama-index).
    """
    model = request.get("alias") or request["model"]
    return f"{PREFIX}{model}:{request['suffix'] or ''}:{job.removeprefix('ftjob-')}"


def checkpoint_name(model: str, step: int | str) -> str:
    """Return the name of a model as it was after an optimizer step, in OpenAI's format."""
    return f"{model}{_STEP}{step}"


def split_name(name: str) -> tuple[str, str | None]:
    """Return the name of a model without its step, and the step as text, or None without one."""
    model, is_checkpoint, step = name.rpartition(_STEP)
    return (model, step) if is_checkpoint else (name, None)


def job_of(model: str) -> str:
    """Return the id of the job that has trained a model of this name."""
    return f"ftjob-{model.rpartition(':')[2]}"
