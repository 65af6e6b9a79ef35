"""A form that was filled in is the request that one would have written."""

import orjson
import pytest

from auctune.domain import InputError
from auctune.files.schema import hyperparameters_of
from auctune.service.http.requests import read_request
from auctune.service.jobs.request import JobRequest
from auctune.service.page.job_views import _thinned, job_body

MODELS = {"north": "tiny", "south": "large"}
FILE = {"training_file": "file-1"}


@pytest.mark.parametrize(("num_steps", "count"), [(0, 5), (4, 5), (5, 5), (6, 5), (5000, 500)])
def test_of_many_steps_some_are_shown_with_the_last_and_all_validations(
    num_steps: int, count: int
) -> None:
    steps = [
        {"step": n, "valid_loss": 1.0 if n == num_steps // 3 else None} for n in range(num_steps)
    ]
    shown = _thinned(steps, count)
    assert steps[-1:] == shown[-1:]
    assert [one for one in steps if one["valid_loss"]] == [
        one for one in shown if one["valid_loss"]
    ]
    assert min(num_steps, count) // 2 <= len(shown) <= count + 1
    assert num_steps > count or shown == steps


def test_an_empty_form_leaves_all_to_the_market() -> None:
    body = job_body(FILE, MODELS)
    assert body == {"model": "tiny", "training_file": "file-1", "market": {}}
    assert isinstance(read_request(orjson.dumps(body)), JobRequest)


def test_a_full_form_is_a_full_request() -> None:
    values = FILE | {
        "zone": "south",
        "model": "tiny",
        "deadline": "+2h",
        "bid": "12.50",
        "repair": "yes",
        "n_epochs": "3",
        "learning_rate_multiplier": "0.5",
        "rank": "16",
        "dropout": "0.1",
        "share": "0.5",
        "seed": "7",
        "validation_file": "file-2",
        "suffix": "weather",
        "name": "Tuesday",
    }
    read = read_request(orjson.dumps(job_body(values, MODELS)))
    assert isinstance(read, JobRequest)
    # A zone has its model, whatever else was chosen.
    assert (read.model, read.market.zone) == ("large", "south")
    assert (read.market.bid, read.market.deadline, read.market.repair) == ("12.50", "+2h", True)
    lora = hyperparameters_of(read.market.lora)
    assert (
        read.hyperparameters_used.n_epochs,
        read.hyperparameters_used.learning_rate_multiplier,
    ) == (3, 0.5)
    assert (lora["rank"], lora["dropout"], read.market.share) == (16, 0.1, 0.5)
    assert (read.seed, read.validation_file, read.suffix) == (7, "file-2", "weather")
    assert read.metadata == {"name": "Tuesday"}


@pytest.mark.parametrize(
    ("field", "typed", "place"),
    [
        ("n_epochs", "many", "hyperparameters.n_epochs"),
        ("n_epochs", "2.5", "hyperparameters.n_epochs"),
        ("rank", "0", "market.lora.rank"),
        ("seed", "-1", "seed"),
        ("suffix", "x" * 65, "suffix"),
        ("training_file", "../etc/passwd", "training_file"),
        ("target_loss", "low", "market.target_loss"),
        ("sites", "north", "market.sites.north"),
        ("sites", "north=file-1\nnorth=file-2", "market.sites"),
        ("zero_at", "+3h", "market.value.amount"),
    ],
)
def test_what_is_wrong_is_refused_by_name(field: str, typed: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        read_request(orjson.dumps(job_body(FILE | {field: typed}, MODELS)))
    assert caught.value.place == place


def test_terms_of_metered_zones_arrive() -> None:
    values = {"max_cost": "12.50", "target_loss": "0.35", "risk": "0.2", "deadline": "+2h"}
    values |= {"value": "40", "zero_at": "+3h", "sites": "north = file-n\n\n south=file-s "}
    whole = read_request(orjson.dumps(job_body(FILE | values, MODELS)))
    assert whole.training_file == "file-n"
    read = whole.market
    assert (read.max_cost, read.target_loss, read.risk) == ("12.50", 0.35, 0.2)
    assert read.value is not None
    assert (read.value.amount, read.value.deadline, read.value.zero_at) == ("40", None, "+3h")
    assert read.sites == {"north": "file-n", "south": "file-s"}


def test_a_line_of_blanks_is_read_in_the_time_of_its_length() -> None:
    # As a regular expression with three ways to share the blanks this took hours.
    body = job_body(FILE | {"sites": " " * 100_000 + "north" + " " * 100_000}, MODELS)
    assert body["market"]["sites"] == {"north": ""}
