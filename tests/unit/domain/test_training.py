"""Hyperparameters are declared once: every surface has each of them, with its default and range."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from auctune.client import JobSpec, JobTerms
from auctune.client.spec import job_request, parse_training_settings
from auctune.domain import InputError
from auctune.domain.training import PARAMETERS, Parameter, TrainingConfig, module_notes
from auctune.engine.market.market_file import BidEntry
from auctune.files.schema import check_schema, hyperparameters_of
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Defaults, Training, resolve_training
from auctune.sim.spot.job_file import TrainingEntry
from auctune.train.job import LoraJob
from auctune.train.job_kinds import LoraSettings

EVERY = pytest.mark.parametrize("parameter", PARAMETERS.values(), ids=lambda one: one.name)
BID = {"id": "a", "data": "a.jsonl", "bid": "1.00", "arrival": 0, "deadline": 9}
FILES: dict[str, Any] = {"data": Path("data.jsonl"), "validation": Path("validation.jsonl")}


def other_value(parameter: Parameter) -> Any:
    """A value in range that is not the default."""
    if parameter.choices:
        return next(choice for choice in parameter.choices if choice != parameter.default)
    if parameter.kind is bool:
        return not parameter.default
    if parameter.kind is int:
        return parameter.default + 3
    return parameter.default / 2 + 0.125 if parameter.kind is float else ("c_attn", "c_fc")


def wrong_value(parameter: Parameter) -> Any:
    if parameter.choices:
        return "sideways"
    return -1 if parameter.kind in (int, float) else 5


def with_others(name: str, value: Any) -> dict[str, Any]:
    """A setting beside those without which it has no effect."""
    return {name: value} | ({"method": "dpo"} if name == "beta" else {})


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@EVERY
def test_a_hyperparameter_gets_from_the_command_line_through_api_and_event_to_the_trainer(
    parameter: Parameter,
) -> None:
    name, value = parameter.name, other_value(parameter)
    text = ",".join(value) if isinstance(value, tuple) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    settings = parse_training_settings(with_others(name, text))
    spec = JobSpec("file-a", validation_file="file-b", model="tiny", settings=settings)
    request = JobRequest.model_validate_json(json.dumps(job_request(spec, JobTerms())))
    training = resolve_training(request, Defaults())
    assert getattr(training, name) == value
    event = json.loads(json.dumps(asdict(training)))
    event["target_modules"] = tuple(event["target_modules"])
    job = LoraJob("job", **FILES, **Training(**event).hyperparameters())
    assert getattr(job, name) == value


@EVERY
def test_a_hyperparameter_gets_from_each_file_to_the_trainer(parameter: Parameter) -> None:
    name, value = parameter.name, other_value(parameter)
    bid = check_schema(BidEntry, BID | with_others(name, plain(value)), "bid")
    assert getattr(bid.job(**FILES), name) == value
    for model in (TrainingEntry, LoraSettings):
        if name in model.model_fields:
            body = {"base": "tiny", "data": "a.jsonl"} | with_others(name, plain(value))
            job = LoraJob("a", **FILES, **hyperparameters_of(check_schema(model, body, "entry")))
            assert getattr(job, name) == value


@EVERY
def test_a_wrong_value_is_named_wherever_it_is_given(parameter: Parameter) -> None:
    name, value = parameter.name, wrong_value(parameter)
    with pytest.raises(InputError, match=f"bid: {name}: "):
        check_schema(BidEntry, {**BID, name: value}, "bid")
    if parameter.kind in (int, float) or parameter.choices:
        with pytest.raises(InputError, match=f"^{name}: "):
            TrainingConfig(**{name: value})


def test_defaults_are_in_range_and_those_of_every_file() -> None:
    defaults = TrainingConfig().hyperparameters()
    assert defaults == {name: parameter.default for name, parameter in PARAMETERS.items()}
    assert check_schema(BidEntry, BID, "bid").job(**FILES).hyperparameters() == defaults
    assert TrainingEntry.model_fields.keys() & PARAMETERS.keys() == PARAMETERS.keys() - {"patience"}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("dropout", 1.0, r"a number in \[0, 1\)"),
        ("alpha", float("nan"), "a number > 0"),
        ("learning_rate", float("inf"), "a number > 0"),
        ("rank", 5000, "a whole number from 1 to 4096"),
        ("epochs", 0, "a whole number >= 1"),
        ("schedule", "sideways", '"constant" or "linear" or "cosine"'),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(InputError, match=f"^{name}: .*; expected {expected}"):
        TrainingConfig(**{name: value})


def test_beta_needs_a_method_that_has_it() -> None:
    with pytest.raises(InputError, match="beta: is set for method 'supervised'"):
        TrainingConfig(beta=0.2)


def test_patience_needs_validation_data() -> None:
    with pytest.raises(InputError, match="patience: is set without a validation file"):
        LoraJob("a", Path("data.jsonl"), patience=2)


def test_an_adapter_of_the_output_layer_has_a_note_on_engines() -> None:
    assert module_notes(("q_proj", "mlp.down_proj")) == ()
    (note,) = module_notes(("q_proj", "model.lm_head"))
    assert "model.lm_head" in note
    assert "llama.cpp" in note
    assert "vLLM" in note
