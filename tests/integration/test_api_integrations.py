"""Integrations of requests: OpenAI's field, refused where the operator has not set it up."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from auctune.service.config.models import ServiceConfig
from auctune.service.config.wandb import WandbConfig
from support.serving import Served, make_file, make_pool, make_zone, serving

pytest_plugins = ["support.served_market"]

JSON = dict[str, Any]


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    zones = [make_zone(), make_pool()]
    wandb = WandbConfig(offline=True, entity="team")
    return make_file(zones).model_copy(update={"wandb": wandb})


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose operator offers no integrations."""
    with serving(tmp_path_factory.mktemp("without")) as served:
        yield served


def integration(**wandb: Any) -> JSON:
    return {"type": "wandb", "wandb": {"project": "market", **wandb}}


def post(served: Served, path: str, body: JSON) -> tuple[int, JSON]:
    with served.http() as http:
        response = http.post(path, json=body)
        return response.status_code, response.json()


def job_body(served: Served, *integrations: JSON, **market: Any) -> JSON:
    terms = {"bid": "100", "deadline": "+20m", "zone": "default", **market}
    body = {"model": "tiny", "training_file": served.upload(), "market": terms}
    return {**body, "integrations": list(integrations)}


def test_a_job_shows_its_integrations_as_openai_does(served: Served) -> None:
    client = served.client()
    made = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=served.upload(),
        integrations=[
            {"type": "wandb", "wandb": {"project": "market", "tags": ["a", "b"]}},
            {"type": "wandb", "wandb": {"project": "other", "name": "n", "entity": "team"}},
        ],
        extra_body={"market": {"bid": "100", "deadline": "+20m", "zone": "default"}},
    )
    shown = client.fine_tuning.jobs.retrieve(made.id)
    assert shown.integrations is not None
    assert [one.model_dump() for one in shown.integrations] == [
        integration(name=None, entity=None, tags=["a", "b"]),
        integration(project="other", name="n", entity="team", tags=[]),
    ]
    assert made.integrations == shown.integrations
    client.fine_tuning.jobs.cancel(made.id)


@pytest.mark.parametrize("integrations", [None, []])
def test_a_job_without_integrations_shows_none(served: Served, integrations: Any) -> None:
    body = {**job_body(served), "integrations": integrations}
    assert post(served, "/v1/fine_tuning/jobs", body)[1]["integrations"] is None


@pytest.mark.parametrize(
    ("integrations", "param"),
    [
        ([integration(project="a/b")], "integrations[0].wandb.project"),
        ([integration(project="")], "integrations[0].wandb.project"),
        ([integration(project="x" * 129)], "integrations[0].wandb.project"),
        ([integration(project="a\u202eb")], "integrations[0].wandb.project"),
        ([integration(name="x" * 129)], "integrations[0].wandb.name"),
        ([integration(tags=["ok", ""])], "integrations[0].wandb.tags[1]"),
        ([integration(tags=["x" * 65])], "integrations[0].wandb.tags[0]"),
        ([integration(tags=["x"] * 33)], "integrations[0].wandb.tags"),
        ([integration(), integration(entity="others")], "integrations[1].wandb.entity"),
        ([integration(key="secret")], "integrations[0].wandb.key"),
        ([integration()] * 6, "integrations"),
    ],
)
def test_a_run_that_w_and_b_would_not_take_is_one_error(
    served: Served, integrations: list[JSON], param: str
) -> None:
    status, body = post(served, "/v1/fine_tuning/jobs", job_body(served, *integrations))
    assert (status, body["error"]["param"]) == (400, param)


def test_without_the_operators_settings_the_error_names_both_ways(without: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        without.client().fine_tuning.jobs.create(
            model="tiny",
            training_file=without.upload(),
            integrations=[{"type": "wandb", "wandb": {"project": "market"}}],
            extra_body={"market": {"bid": "100", "deadline": "+20m"}},
        )
    assert refused.value.param == "integrations"
    for part in ("[wandb] in auctune.toml", "auctune watch JOB --wandb PROJECT"):
        assert part in refused.value.message
    for path, market in (("/v1/quotes", {}), ("/v1/fine_tuning/jobs", {"what_if": True})):
        status, body = post(without, path, job_body(without, integration(), **market))
        assert (status, body["error"]["param"]) == (400, "integrations")
    status, body = post(without, "/v1/quotes", job_body(without))
    assert status == 200
    accepted = {"integrations": [integration()], "market": {"quote": body["id"], "line": 0}}
    status, body = post(without, "/v1/fine_tuning/jobs", accepted)
    assert (status, body["error"]["param"]) == (400, "integrations")


@pytest.mark.parametrize("zone", ["default", "pool"])
@pytest.mark.parametrize("where", ["quoted", "accepted", "both"])
def test_a_quote_is_accepted_with_its_integrations_or_with_others(
    served: Served, zone: str, where: str
) -> None:
    target = {"target_loss": 2.0, "bid": None} if zone == "pool" else {}
    quoted = [integration(project="quoted")] if where != "accepted" else []
    status, quote = post(served, "/v1/quotes", job_body(served, *quoted, zone=zone, **target))
    assert status == 200, quote
    line = {} if zone == "pool" else {"line": 0}
    accepted: JSON = {"market": {"quote": quote["id"], **line}}
    if where != "quoted":
        accepted["integrations"] = [integration(project="accepted")]
    status, job = post(served, "/v1/fine_tuning/jobs", accepted)
    assert status == 200, job
    project = "quoted" if where == "quoted" else "accepted"
    assert [one["wandb"]["project"] for one in job["integrations"]] == [project]
