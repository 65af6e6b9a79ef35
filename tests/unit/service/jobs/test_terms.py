"""Terms of kinds of zones: what a request must contain, and must not."""

from typing import Any

import pytest

from auctune.domain import InputError
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import Terms
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.timeshare.gateway import TimeshareGateway

# A request for each kind that it takes.
TAKEN: dict[type, dict[str, Any]] = {
    AuctionGateway: {"market": {"deadline": "+1h", "bid": "1"}},
    SpotGateway: {"market": {"deadline": "+1h", "max_cost": "1"}},
    TimeshareGateway: {"market": {"deadline": "+1h", "target_loss": 0.5}},
    EdgeGateway: {"market": {"sites": {"a": "file-a"}, "lora": {"learning_rate": 0.1}}},
}
# Each field of a request that some kind requires or does not support.
FIELDS: dict[str, dict[str, Any]] = {
    "market.deadline": {"market": {"deadline": "+1h"}},
    "market.target_loss": {"market": {"target_loss": 1.0}},
    "market.sites": {"market": {"sites": {"a": "file-a"}}},
    "market.share": {"market": {"share": 0.5}},
    "market.repair": {"market": {"repair": True}},
    "market.lora.rank": {"market": {"lora": {"rank": 8}}},
    "market.lora.patience": {"market": {"lora": {"patience": 2}}},
    "market.lora.warmup_ratio": {"market": {"lora": {"warmup_ratio": 0.1}}},
    "validation_file": {"validation_file": "file-v"},
    "method.dpo": {"method": {"type": "dpo"}},
    "method.kto": {"method": {"type": "kto"}},
    "hyperparameters.n_epochs": {"hyperparameters": {"n_epochs": 3}},
}


def merged(body: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    found = dict(body)
    for name, value in more.items():
        is_table = isinstance(value, dict) and isinstance(found.get(name), dict)
        found[name] = merged(found[name], value) if is_table else value
    return found


def request(body: dict[str, Any]) -> JobRequest:
    return JobRequest.model_validate({"model": "tiny", "training_file": "file-a", **body})


def refusal(terms: Terms, body: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as refused:
        terms.check(request(body), "north", "some kind")
    return refused.value


@pytest.mark.parametrize("gateway", TAKEN, ids=lambda gateway: gateway.kind)
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_not_supported_is_refused_by_name_and_keeps_the_zone_from_being_chosen(
    gateway: type, name: str
) -> None:
    terms: Terms = gateway.terms  # type: ignore[attr-defined]
    body = merged(TAKEN[gateway], FIELDS[name])
    if name in terms.unsupported:
        error = refusal(terms, body)
        assert (error.place, error.found) == (name, "is given")
        assert "zone north (some kind)" in error.expected
        reason = terms.unsupported_reason(request(body))
        assert reason is not None
        assert reason.endswith(f"does not support {name}")
    else:
        terms.check(request(body), "north", "some kind")
        assert terms.unsupported_reason(request(body)) is None


@pytest.mark.parametrize("gateway", TAKEN, ids=lambda gateway: gateway.kind)
def test_a_field_that_is_required_is_missed_by_name(gateway: type) -> None:
    terms: Terms = gateway.terms  # type: ignore[attr-defined]
    for name, expected in terms.required.items():
        field = name.removeprefix("market.")
        market = {key: value for key, value in TAKEN[gateway]["market"].items() if key != field}
        error = refusal(terms, {"market": market})
        assert (error.place, error.found, error.expected) == (name, "is missing", expected)
        assert terms.unsupported_reason(request({"market": market})) == f"needs {name}"


def test_the_deadline_of_a_value_is_a_deadline() -> None:
    value = {"amount": "1", "deadline": "+1h"}
    SpotGateway.terms.check(request({"market": {"value": value}}), "north", "spot")


def test_every_field_that_a_kind_names_can_be_read_of_a_request() -> None:
    for gateway in TAKEN:
        terms: Terms = gateway.terms  # type: ignore[attr-defined]
        for name in terms.unsupported:
            alone = Terms(unsupported=(name,))
            assert alone.unsupported_reason(request({})) is None
