"""Train fine-tuning jobs of OpenAI's API again, in a service of auctune.

    OPENAI_API_KEY=sk-... TARGET_URL=http://127.0.0.1:8420/v1 TARGET_API_KEY=sk-... \
        python copy_jobs.py [ftjob-ID ...]

Copies the training and validation files of jobs that succeeded, all of them or those that are
named, and submits each job with the same model, method, hyperparameters, seed, suffix and metadata,
oldest first. The service needs the model's name among its `model_aliases`, and default terms.
"""

import os
import sys

from openai import OpenAI
from openai.types.fine_tuning import FineTuningJob


def main() -> None:
    source = OpenAI()
    target = OpenAI(base_url=os.environ["TARGET_URL"], api_key=os.environ["TARGET_API_KEY"])
    named = sys.argv[1:]
    jobs = [source.fine_tuning.jobs.retrieve(id_) for id_ in named]
    if not named:
        jobs = [job for job in source.fine_tuning.jobs.list() if job.status == "succeeded"]
    copied: dict[str, str] = {}

    def copy_file(id_: str | None) -> str | None:
        if id_ is None or id_ in copied:
            return copied.get(id_ or "")
        name, content = source.files.retrieve(id_).filename, source.files.content(id_).read()
        copied[id_] = target.files.create(file=(name, content), purpose="fine-tune").id
        return copied[id_]

    for job in sorted(jobs, key=lambda job: job.created_at):
        fields = {
            "model": job.model,
            "training_file": copy_file(job.training_file),
            "validation_file": copy_file(job.validation_file),
            "seed": job.seed,
            "suffix": suffix(job),
            "metadata": job.metadata,
            "method": job.method.to_dict() if job.method else None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        copy = target.fine_tuning.jobs.create(**given)
        print(f"{job.id} -> {copy.id}: {copy.status}", copy.error.message if copy.error else "")


def suffix(job: FineTuningJob) -> str | None:
    """Return the suffix in the name of the tuned model, `ft:MODEL:ORGANIZATION:SUFFIX:ID`."""
    parts = (job.fine_tuned_model or "").split(":")
    return parts[-2] or None if len(parts) > 2 else None


if __name__ == "__main__":
    main()
