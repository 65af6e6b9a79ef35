"""Bids of a market file as jobs of a service."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auctune.cli.submit import job_spec
from auctune.client import JobTerms
from auctune.client.spec import job_request
from auctune.domain import InputError
from auctune.engine.market.market_file import BidEntry
from auctune.files.schema import check_schema
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Defaults, resolve_training

BID = {"id": "a", "data": "a.jsonl", "bid": "1.00", "arrival": 0, "deadline": 9}


@pytest.mark.parametrize("settings", [{}, {"method": "dpo", "beta": 0.3}, {"rank": 4, "epochs": 2}])
def test_a_bid_trains_in_a_service_as_its_file_says(settings: dict[str, Any]) -> None:
    bid = check_schema(BidEntry, BID | settings, "bid")
    # The client uploads the file first.
    spec = replace(job_spec(bid, Path("folder"), "tiny"), training_file="file-a")
    request = job_request(spec, JobTerms())
    training = resolve_training(JobRequest.model_validate(request), Defaults())
    assert training.hyperparameters() == bid.job(Path("a"), None).hyperparameters()


def test_a_folder_to_start_from_is_not_left_out_in_silence() -> None:
    bid = check_schema(BidEntry, BID | {"start_from": "adapter"}, "bid")
    with pytest.raises(InputError, match="a: start_from: is a folder of this machine"):
        job_spec(bid, Path(), "tiny")
