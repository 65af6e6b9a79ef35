"""Fine-tuned models: their names, and one as the start of another job."""

from dataclasses import dataclass

from auctune.domain.start_adapter import StartAdapter

PREFIX = "ft:"
"""Prefix of their names, as at OpenAI."""


@dataclass(frozen=True, slots=True)
class StartModel:
    """The fine-tuned model that a job starts from.

    Attributes:
        base: name of its base model.
        file: id of the file with its adapter.
        adapter: what its file was found to hold.
    """

    base: str
    file: str
    adapter: StartAdapter


def model_name(base: str, suffix: str | None, job: str) -> str:
    """Return the name of the model that a job has trained, in OpenAI's format."""
    return f"{PREFIX}{base}:{suffix or ''}:{job.removeprefix('ftjob-')}"


def job_of(model: str) -> str:
    """Return the id of the job that has trained a model of this name."""
    return f"ftjob-{model.rpartition(':')[2]}"
