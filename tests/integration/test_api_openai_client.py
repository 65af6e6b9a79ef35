"""The official client, strict and not, does with the service what it does with OpenAI's."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from support.serving import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("market")) as opened:
        yield opened


@pytest.fixture(params=[True, False], ids=["strict", "lenient"])
def client(served: Served, request: pytest.FixtureRequest) -> openai.OpenAI:
    return served.client(strict=request.param)


def test_a(served: Served, client: openai.OpenAI) -> None:
    file = served.upload()
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        extra_body={"market": {"bid": "100", "deadline": "+20m"}},
    )
    print(job)
