"""What commands ask for, against the service's own reading of it."""

from dataclasses import fields, replace

import pytest
from pydantic import ValidationError

from auctune.client import DecayingValue, JobSpec, JobTerms
from auctune.client.spec import (
    TRAINING_SETTINGS,
    acceptance_request,
    job_request,
    parse_training_settings,
    parse_value,
)
from auctune.domain import InputError
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.training import Defaults, Training, resolve_training

# One of each setting, and none of them a default.
TEXTS = {
    "method": "dpo",
    "beta": "0.2",
    "epochs": "7",
    "batch_size": "3",
    "rank": "5",
    "alpha": "2.5",
    "dropout": "0.25",
    "target_modules": "c_attn,c_fc",
    "learning_rate": "0.02",
    "weight_decay": "0.1",
    "schedule": "cosine",
    "warmup_steps": "4",
    "warmup_ratio": "0.25",
    "use_rslora": "true",
    "max_length": "99",
    "truncate": "true",
    "max_grad_norm": "0.5",
    "patience": "2",
    "share": "0.75",
    "seed": "11",
}


def test_every_setting_of_training_can_be_given_and_arrives() -> None:
    settings = parse_training_settings(TEXTS)
    spec = JobSpec(
        "file-a",
        validation_file="file-b",
        model="tiny",
        settings=settings,
        name="weather",
    )
    body = job_request(spec, JobTerms(zone="west", bid="4.00", deadline="+2h"))

    read = JobRequest.model_validate(body)
    training = resolve_training(read, Defaults())
    for name, value in settings.items():
        found = getattr(training, name)
        assert (list(found) if isinstance(found, tuple) else found) == value, name
    assert set(TEXTS) == set(TRAINING_SETTINGS)
    own = {"data", "validation", "repair", "start_from", "start_digest"}
    assert set(TEXTS) == {field.name for field in fields(Training)} - own
    assert (training.data, training.validation) == ("file-a", "file-b")
    assert (read.market.bid, read.market.deadline, read.market.zone) == ("4.00", "+2h", "west")
    assert (read.metadata, read.suffix) == ({"name": "weather"}, "weather")


def test_a_repair_is_allowed_but_of_pairs() -> None:
    spec = JobSpec("file-a", model="tiny", repair=True)
    read = JobRequest.model_validate(job_request(spec, JobTerms()))
    assert resolve_training(read, Defaults()).repair
    pairs = job_request(replace(spec, settings={"method": "dpo"}), JobTerms())
    with pytest.raises(ValidationError, match=r"market\.repair: is true for method 'dpo'"):
        JobRequest.model_validate(pairs)


def test_what_was_not_given_is_left_to_the_service() -> None:
    body = job_request(JobSpec("file-a", model="tiny"), JobTerms())
    assert body == {"model": "tiny", "training_file": "file-a", "market": {}}


def test_what_if_only_asks() -> None:
    body = job_request(JobSpec("file-a", model="tiny"), JobTerms(what_if=True))
    assert JobRequest.model_validate(body).market.what_if


def test_a_line_of_a_quote_is_taken_by_its_number_alone() -> None:
    assert acceptance_request("quote-a", 0, None, None) == {
        "market": {"quote": "quote-a", "line": 0}
    }
    body = acceptance_request("quote-a", 2, "4.00", "rain")
    read = Acceptance.model_validate(body)
    assert (read.market.quote, read.market.line, read.market.bid) == ("quote-a", 2, "4.00")
    assert (read.suffix, read.metadata) == ("rain", {"name": "rain"})


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"rang": "8"},
            "--set rang: is not a training setting; expected one of method, beta, epochs",
        ),
        ({"rank": "8.5"}, "--set rank: '8.5'; expected a whole number"),
        ({"alpha": "much"}, "--set alpha: 'much'; expected a number"),
        (
            {"beta": "0.1"},
            "--set beta: is set for method 'supervised'; expected --set method=dpo"
            " or --set method=kto beside it",
        ),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_training_settings(texts)
    assert str(refused.value).startswith(message)


def test_all_terms_arrive() -> None:
    terms = JobTerms(
        deadline="+2h", value="40@+2h..+3h", max_cost="12.50", target_loss=0.5, risk=0.2
    )
    body = job_request(JobSpec("file-a", model="tiny", sites={"north": "file-n"}), terms)
    read = JobRequest.model_validate(body).market
    assert read.value is not None
    assert (read.value.amount, read.value.deadline, read.value.zero_at) == ("40", "+2h", "+3h")
    assert (read.max_cost, read.target_loss, read.risk) == ("12.50", 0.5, 0.2)
    assert read.sites == {"north": "file-n"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("40", DecayingValue("40")),
        ("40@+2h", DecayingValue("40", "+2h")),
        ("40@+2h..+3h", DecayingValue("40", "+2h", "+3h")),
        ("40@..+3h", DecayingValue("40", None, "+3h")),
        (
            "40@2031-05-04T09:00:00.5Z..2031-05-04T12:00:00Z",
            DecayingValue("40", "2031-05-04T09:00:00.5Z", "2031-05-04T12:00:00Z"),
        ),
    ],
)
def test_a_value_is_read_as_it_is_typed(text: str, value: DecayingValue) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["", "@+2h", "40@", "40@+2h..", "40@+2h@+3h"])
def test_what_is_no_value_says_how_one_is_typed(text: str) -> None:
    with pytest.raises(InputError, match=r"AMOUNT@DEADLINE\.\.WORTHLESS"):
        parse_value(text)
