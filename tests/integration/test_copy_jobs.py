"""The example that trains jobs of OpenAI's API again, on jobs of another account."""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.service.accounts.registry import DefaultTerms
from auctune.service.config.models import ServiceConfig
from support.serving import ROWS, Served, make_file
from support.waits import WAIT_SECONDS

pytest_plugins = ["support.served_market"]
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples" / "move-from-openai" / "copy_jobs.py"


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    terms = DefaultTerms(bid=Decimal(100), deadline="+20m")
    return make_file().model_copy(update={"default_terms": terms})


def test_jobs_that_succeeded_are_trained_again_with_their_files_and_settings(
    served: Served,
) -> None:
    source, target = served.client(), served.client(served.key("bob"))
    file = served.upload()
    settings = {
        "validation_file": served.upload(name="validation.jsonl"),
        "method": {
            "type": "supervised",
            "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": 5}},
        },
        "suffix": "marv",
        "seed": 7,
        "metadata": {"for": "the shop"},
    }
    job = source.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        **settings,
    )
    served.finish(job.id, "ada")
    # One that did not succeed is not copied.
    source.fine_tuning.jobs.cancel(served.bid(source, file).id)

    ended = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={
            "PATH": os.environ["PATH"],
            "OPENAI_BASE_URL": f"{served.url}/v1",
            "OPENAI_API_KEY": served.key("ada"),
            "TARGET_URL": f"{served.url}/v1",
            "TARGET_API_KEY": served.key("bob"),
        },
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (copy,) = target.fine_tuning.jobs.list().data
    assert ended.stdout.startswith(f"{job.id} -> {copy.id}: ")
    assert copy.method == job.method
    assert (copy.seed, copy.metadata) == (7, {"for": "the shop"})
    for name in ("training_file", "validation_file"):
        copied = getattr(copy, name)
        assert target.files.content(copied).text == ROWS
    names = [
        target.files.retrieve(one).filename
        for one in (copy.training_file, copy.validation_file or "")
    ]
    assert names == ["data.jsonl", "validation.jsonl"]
