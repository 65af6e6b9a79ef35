"""Jobs that start from the model of an earlier job of their owner, as with OpenAI's client."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from auctune.client import Client, Endpoint, JobSpec, JobTerms, Transport
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import InputError
from auctune.service.config.models import ServiceConfig
from support.adapter_archives import pack
from support.serving import Served, make_file, make_pool, make_zone

pytest_plugins = ["support.served_market"]

ALIAS = "gpt-4o-mini-2024-07-18"
TERMS = {"bid": "100", "deadline": "+20m"}


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    file = make_file([make_zone(), make_pool()])
    return file.model_copy(update={"model_aliases": {ALIAS: "tiny"}})


EPOCHS = [EpochMetrics(epoch, 7 * epoch, 1 / epoch, 0.5, 2 / epoch, 0.25) for epoch in (1, 2, 3)]


def trained(
    served: Served, client: openai.OpenAI, archive: bytes, base: str = "tiny"
) -> tuple[str, str]:
    """The id and the model of a job whose adapter this is."""
    job = client.fine_tuning.jobs.create(
        model=base,
        training_file=served.upload(),
        suffix="weather",
        extra_body={"market": {**TERMS, "zone": "default"}},
    )
    served.train(job.id, 150)
    served.finish(job.id, "ada", content=archive, epochs=EPOCHS)
    model = client.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    assert model is not None
    return job.id, model


def test_a_job_starts_from_the_model_of_an_earlier_one(served: Served, tmp_path: Path) -> None:
    client = served.client()
    first, model = trained(served, client, pack(tmp_path))
    file = served.upload()
    # Of two zones with the base, the pool needs a target loss.
    job = client.fine_tuning.jobs.create(
        model=model, training_file=file, suffix="more", extra_body={"market": TERMS}
    )
    assert (job.status, job.model, job.market["start_from"]) == ("queued", "tiny", model)
    lora = job.market["lora"]
    assert [lora[name] for name in ("rank", "alpha", "target_modules")] == [2, 3.0, ["q_proj"]]
    pooled = client.fine_tuning.jobs.create(
        model=model,
        training_file=file,
        extra_body={"market": {**TERMS, "zone": "pool", "target_loss": 1}},
    )
    assert (pooled.market["zone"], pooled.market["start_from"]) == ("pool", model)
    client.fine_tuning.jobs.cancel(pooled.id)
    body = served.service.queries.job(job.id)
    assert body is not None
    archive = client.fine_tuning.jobs.retrieve(first).result_files[-1]
    assert json.loads(body.body)["training"]["start_from"] == archive
    # The adapter stays as long as the job may need it.
    with pytest.raises(openai.BadRequestError, match="an open job needs this file"):
        client.files.delete(archive)
    served.train(job.id, 150)
    served.finish(job.id, "ada", content=b"PK adapter")
    done = client.fine_tuning.jobs.retrieve(job.id)
    assert done.fine_tuned_model == f"ft:tiny:more:{job.id.removeprefix('ftjob-')}"
    assert client.files.delete(archive).deleted
    with pytest.raises(openai.BadRequestError, match="has been deleted"):
        client.fine_tuning.jobs.create(
            model=model, training_file=file, extra_body={"market": TERMS}
        )


def test_the_epochs_of_a_job_are_checkpoints_and_models(served: Served, tmp_path: Path) -> None:
    client = served.client()
    content = pack(tmp_path)
    first, model = trained(served, client, content)
    found = list(client.fine_tuning.jobs.checkpoints.list(first, limit=2))
    assert [one.step_number for one in found] == [21, 14, 7]
    assert [one.fine_tuned_model_checkpoint for one in found] == [
        f"{model}:ckpt-step-{step}" for step in (21, 14, 7)
    ]
    metrics = found[1].metrics
    assert (metrics.step, metrics.train_loss, metrics.full_valid_loss) == (14, 0.5, 1.0)
    assert (metrics.train_mean_token_accuracy, metrics.full_valid_mean_token_accuracy) == (
        0.5,
        0.25,
    )
    file = str(found[1].to_dict()["result_file"])
    assert client.files.content(file).read() == content
    with pytest.raises(openai.NotFoundError):
        client.fine_tuning.jobs.checkpoints.list(first, after="ftckpt-unknown")
    with served.http(served.key("eve")) as other:
        assert other.get(f"/v1/fine_tuning/jobs/{first}/checkpoints").status_code == 404
    job = client.fine_tuning.jobs.create(
        model=found[1].fine_tuned_model_checkpoint,
        training_file=served.upload(),
        extra_body={"market": {**TERMS, "zone": "default"}},
    )
    assert job.market["start_from"] == f"{model}:ckpt-step-14"
    with pytest.raises(openai.BadRequestError, match="an open job needs this file"):
        client.files.delete(file)
    with pytest.raises(openai.BadRequestError, match="there is no fine-tuned model"):
        client.fine_tuning.jobs.create(
            model=f"{model}:ckpt-step-8",
            training_file=served.upload(),
            extra_body={"market": {**TERMS, "zone": "default"}},
        )


def test_models_keep_the_name_of_openai_that_their_job_was_asked_for_by(
    served: Served, tmp_path: Path
) -> None:
    client = served.client()
    first, model = trained(served, client, pack(tmp_path), ALIAS)
    assert model == f"ft:{ALIAS}:weather:{first.removeprefix('ftjob-')}"
    found = client.fine_tuning.jobs.checkpoints.list(first).data[0]
    assert found.fine_tuned_model_checkpoint == f"{model}:ckpt-step-21"
    with pytest.raises(openai.BadRequestError, match="there is no fine-tuned model"):
        trained(served, client, b"", model.replace(ALIAS, "tiny"))
    for start in (model, found.fine_tuned_model_checkpoint):
        second, further = trained(served, client, b"PK adapter", start)
        assert further == f"ft:{ALIAS}:weather:{second.removeprefix('ftjob-')}"
        assert client.fine_tuning.jobs.retrieve(second).model == "tiny"


def test_a_quote_of_a_model_is_accepted(served: Served, tmp_path: Path) -> None:
    client = served.client()
    _, model = trained(served, client, pack(tmp_path))
    body = {"model": model, "training_file": served.upload(), "market": {"zone": "default"}}
    quote = client.post("/quotes", body=body, cast_to=dict[str, Any])
    assert quote["model"] == model
    job = client.post(
        "/fine_tuning/jobs",
        body={"model": model, "market": {"quote": quote["id"], "line": 0}},
        cast_to=dict[str, Any],
    )
    assert (job["market"]["start_from"], job["market"]["lora"]["rank"]) == (model, 2)


def test_what_is_no_model_of_the_owner_or_contradicts_it_is_refused(
    served: Served, tmp_path: Path
) -> None:
    client = served.client()
    first, model = trained(served, client, pack(tmp_path))
    (tmp_path / "other").mkdir()
    _, other_base = trained(served, client, pack(tmp_path / "other", "1" * 64))
    _, broken = trained(served, client, b"PK adapter")
    running = served.bid(client, served.upload())
    key = served.key("eve")
    unknown = "there is no fine-tuned model"
    market = {**TERMS, "zone": "default"}
    for who, name, terms, found in (
        (key, model, market, unknown),
        (None, model.replace("weather", "rain"), market, unknown),
        (None, f"ft:tiny::{running.id.removeprefix('ftjob-')}", market, unknown),
        (None, "ft:tiny::nothing", market, unknown),
        (None, "ft:", market, unknown),
        (None, model, {**market, "lora": {"rank": 8}}, "market.lora.rank: 8, where the adapter"),
        (None, other_base, market, "was trained on another base"),
        (None, broken, market, "is neither a folder nor a whole zip archive"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            served.client(who).fine_tuning.jobs.create(
                model=name,
                training_file=served.upload(who),
                extra_body={"market": terms},
            )
        assert found in refused.value.message
    # Another user's model, and none at all, are answered alike.
    with Client(Transport(Endpoint(served.url, served.users["ada"]))) as auctune:
        spec = JobSpec(served.upload(), model=first)
        assert auctune.prepare(spec, JobTerms()).model == model
        with pytest.raises(InputError, match=r"--model: .* has no model"):
            auctune.prepare(JobSpec(served.upload(), model=running.id), JobTerms())
