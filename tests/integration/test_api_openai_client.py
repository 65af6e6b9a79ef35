"""The official client, strict and not, does with the service what it does with OpenAI's."""

import gzip
from decimal import Decimal
from typing import Any

import openai
import pytest

from auctune.domain.money import STEP
from support.serving import ROWS, Served

pytest_plugins = ["support.served_market"]


@pytest.fixture(params=[True, False], ids=["strict", "lenient"])
def client(served: Served, request: pytest.FixtureRequest) -> openai.OpenAI:
    return served.client(strict=request.param)


def test_a_file_comes_back_byte_for_byte_and_is_looked_at(client: openai.OpenAI) -> None:
    made = client.files.create(file=("my data.jsonl", ROWS.encode()), purpose="fine-tune")
    assert (made.filename, made.bytes, made.purpose) == ("my data.jsonl", len(ROWS), "fine-tune")
    found = client.files.wait_for_processing(made.id, poll_interval=0.05, max_wait_seconds=30)
    assert found.status == "processed"
    assert client.files.content(made.id).read() == ROWS.encode()


def test_a_file_that_is_no_data_set_says_what_is_wrong(client: openai.OpenAI) -> None:
    made = client.files.create(file=("data.jsonl", b"no json at all\n"), purpose="fine-tune")
    found = client.files.wait_for_processing(made.id, poll_interval=0.05, max_wait_seconds=30)
    assert found.status == "error"
    assert found.status_details is not None
    assert "JSON" in found.status_details


def test_files_are_listed_in_pages_either_way_and_deleted(served: Served) -> None:
    lister = served.client(served.key("lister"))
    made = [served.upload(served.users["lister"]) for _ in range(5)]
    newest_first = [file.id for file in lister.files.list(limit=2)]
    assert newest_first == made[::-1]
    assert [file.id for file in lister.files.list(limit=2, order="asc")] == made
    assert [file.id for file in lister.files.list(purpose="fine-tune-results")] == []
    assert lister.files.delete(made[2]).deleted
    assert made[2] not in [file.id for file in lister.files.list()]
    with pytest.raises(openai.NotFoundError):
        lister.files.retrieve(made[2])


def test_a_job_is_decided_trained_and_fetched(served: Served, client: openai.OpenAI) -> None:
    file = served.upload()
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2}}},
        suffix="weather",
        seed=7,
        metadata={"team": "blue"},
        extra_body={"market": {"bid": "12.50", "deadline": "+10m", "lora": {"rank": 4}}},
    )
    assert (job.status, job.seed, job.metadata) == ("queued", 7, {"team": "blue"})
    assert job.hyperparameters.n_epochs == 2
    assert job.market["decision"] == "admitted"
    assert job.market["lora"]["rank"] == 4
    assert job.estimated_finish == int(job.market["plan"]["finish"])

    served.train(job.id, 40)
    running = client.fine_tuning.jobs.retrieve(job.id)
    assert (running.status, running.market["state"]) == ("running", "training")
    served.train(job.id, 100)
    archive = served.finish(job.id, "ada")

    done = client.fine_tuning.jobs.retrieve(job.id)
    assert (done.status, done.result_files[1:]) == ("succeeded", [archive])
    assert done.fine_tuned_model == f"ft:tiny:weather:{job.id.removeprefix('ftjob-')}"
    assert done.trained_tokens == 800
    assert done.finished_at is not None
    assert client.files.content(archive).read() == b"PK adapter"

    events = list(client.fine_tuning.jobs.list_events(job.id, limit=2))
    assert [event.type for event in events] == ["message", "metrics", "metrics", "message"]
    assert events[0].message == "The adapter is ready"
    assert events[1].data["train_loss"] == pytest.approx(2.5 / 101)
    assert events[1].data["train_mean_token_accuracy"] == 0.5
    assert events[1].data["steps"][-1].items() <= events[1].data.items()


def test_jobs_are_listed_newest_first_and_by_their_metadata(served: Served) -> None:
    client = served.client(served.key("planner"))
    file = served.upload(served.users["planner"])

    def make(metadata: dict[str, str] | None) -> str:
        job = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=file,
            metadata=metadata,
            extra_body={"market": {"bid": "1", "deadline": "+5m"}},
        )
        return str(job.id)

    made = [make(each) for each in ({"run": "a", "by": "eve"}, None, {"run": "b"}, {"run": "a"})]
    jobs = client.fine_tuning.jobs
    assert [job.id for job in jobs.list(limit=3)] == made[::-1]
    assert [job.id for job in jobs.list(metadata={"run": "a"}, limit=1)] == [made[3], made[0]]
    assert [job.id for job in jobs.list(metadata={"run": "a", "by": "eve"})] == [made[0]]
    assert [job.id for job in jobs.list(extra_query={"metadata": "null"})] == [made[1]]


def test_a_job_is_paused_resumed_and_cancelled(served: Served, client: openai.OpenAI) -> None:
    job = served.bid(client, served.upload())
    paused = client.fine_tuning.jobs.pause(job.id)
    assert paused.market["state"] == "paused"
    with pytest.raises(openai.BadRequestError):
        client.fine_tuning.jobs.pause(job.id)
    resumed = client.fine_tuning.jobs.resume(job.id)
    assert resumed.market["state"] == "planned"
    assert resumed.market["payment"] == job.market["payment"]
    cancelled = client.fine_tuning.jobs.cancel(job.id)
    assert (cancelled.status, cancelled.market["refunded"]) == ("cancelled", False)
    with pytest.raises(openai.BadRequestError) as refused:
        client.fine_tuning.jobs.cancel(job.id)
    assert refused.value.code == "job_over"


def test_a_bid_below_the_price_is_told_the_least_that_would_do(
    served: Served, client: openai.OpenAI
) -> None:
    file = served.upload()
    low = served.bid(client, file, bid="0.0001")
    assert (low.status, low.error.code) == ("failed", "bid_rejected")
    assert low.market["reason"] == "unprofitable"
    least = low.market["min_bid"]
    assert served.bid(client, file, bid=least, what_if=True).market["decision"] == "admitted"
    below = str(Decimal(least) - STEP)
    assert served.bid(client, file, bid=below, what_if=True).market["decision"] == "rejected"


def test_a_bid_that_is_too_early_is_told_the_earliest_deadline(
    served: Served, client: openai.OpenAI
) -> None:
    file = served.upload(rows=2 * ROWS)
    hasty = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        hyperparameters={"n_epochs": 50},
        extra_body={"market": {"bid": "1000", "deadline": "+2m"}},
    )
    assert hasty.error is not None
    assert hasty.error.param == "market.deadline"
    earliest = hasty.market["earliest_deadline"]
    assert earliest > served.clock() + 120

    def decision(seconds: float) -> str:
        deadline = f"+{seconds}s"
        again = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=file,
            hyperparameters={"n_epochs": 50},
            extra_body={"market": {"bid": "1000", "deadline": deadline, "what_if": True}},
        )
        return str(again.market["decision"])

    span = earliest - served.clock()
    assert decision(span) == "admitted"
    assert decision(span - 60) == "rejected"


def test_what_this_market_cannot_do_is_refused_by_name(
    served: Served, client: openai.OpenAI
) -> None:
    file = served.upload()
    with pytest.raises(openai.BadRequestError) as refused:
        client.fine_tuning.jobs.create(
            model="tiny",
            training_file=file,
            method={"type": "reinforcement"},
            extra_body={"market": {"bid": "1", "deadline": "+5m"}},
        )
    assert refused.value.param == "method.type"
    assert "supervised" in refused.value.message


def test_a_message_names_the_field_that_is_wrong(served: Served, client: openai.OpenAI) -> None:
    file = served.upload()
    # The client shows the message, and not `param`.
    with pytest.raises(
        openai.BadRequestError, match=r"market\.bid: is missing; expected an"
    ) as bid:
        served.bid(client, file, bid=None)
    assert bid.value.param == "market.bid"
    with pytest.raises(openai.BadRequestError, match=r"market\.deadline: 'soon'; exp") as time:
        served.bid(client, file, deadline="soon")
    assert time.value.param == "market.deadline"
    for place, terms in (
        ("market.lora.target_modules", {"lora": {"target_modules": ["nonsense"]}}),
        ("market.value.zero_at", {"value": {"amount": "1", "zero_at": "soon"}, "bid": None}),
        ("market.line", {"line": 0}),
        ("market.bid", {"bid": {}}),
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            served.bid(client, file, **terms)
        assert wrong.value.param == place
    with pytest.raises(openai.BadRequestError, match="'auto' or greater than or equal to 1"):
        client.fine_tuning.jobs.create(
            model="tiny", training_file=file, hyperparameters={"n_epochs": 0}
        )
    with pytest.raises(openai.BadRequestError) as suffix:
        client.fine_tuning.jobs.create(model="tiny", training_file=file, suffix="a\u202eb")
    assert suffix.value.param == "suffix"
    for body in (b"null", b'{"model": "\\ud800"}', b"[" * 1000):
        with served.http() as http:
            error = http.post("/v1/fine_tuning/jobs", content=body).json()["error"]
        assert (error["param"], error["message"][:6]) == ("body", "body: ")
    with pytest.raises(openai.BadRequestError, match="limit: Input should be") as limit:
        client.fine_tuning.jobs.list(limit=0)
    assert limit.value.param == "limit"


def test_a_job_whose_data_are_not_known_yet_is_validated_first_and_then_decided(
    served: Served, client: openai.OpenAI
) -> None:
    made = client.files.create(file=("data.jsonl", ROWS.encode()), purpose="fine-tune")
    # A length that nobody has asked for: its size cannot be known.
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=made.id,
        extra_body={"market": {"bid": "100", "deadline": "+10m", "lora": {"max_length": 77}}},
    )
    assert job.status == "validating_files"
    decided = served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id), "queued")
    assert decided.market["decision"] == "admitted"
    assert decided.created_at == job.created_at


def test_a_wrong_key_is_an_authentication_error(served: Served) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        served.client("sk-nobody").files.list()
    assert refused.value.code == "invalid_api_key"


def test_a_job_learns_from_pairs(served: Served, client: openai.OpenAI) -> None:
    pairs = served.upload_pairs()
    texts = served.upload()
    terms = {"market": {"bid": "12.50", "deadline": "+10m"}}

    def create(file: str, type_: str) -> Any:
        chosen = {"n_epochs": 2} | ({"beta": 0.2} if type_ == "dpo" else {})
        method: Any = {"type": type_, type_: {"hyperparameters": chosen}}
        return client.fine_tuning.jobs.create(
            model="tiny", training_file=file, method=method, extra_body=terms
        )

    job = create(pairs, "dpo")
    assert job.market["decision"] == "admitted"
    assert job.method.type == "dpo"
    assert job.method.dpo.hyperparameters.beta == 0.2
    assert job.method.supervised is None
    with pytest.raises(openai.BadRequestError, match="training_file: has preferences"):
        create(pairs, "supervised")
    with pytest.raises(openai.BadRequestError, match="has chats, completions or texts"):
        create(texts, "dpo")
    repaired = {"market": {**terms["market"], "repair": True}}
    with pytest.raises(openai.BadRequestError, match=r"market\.repair: is true for method 'dpo'"):
        client.fine_tuning.jobs.create(
            model="tiny", training_file=pairs, method={"type": "dpo"}, extra_body=repaired
        )


def test_a_job_learns_from_ratings_in_a_packed_table(served: Served, client: openai.OpenAI) -> None:
    table = "prompt,completion,label\n" + "Is it open?,Look it up.,false\nWhen?,At six.,true\n" * 9
    file = client.files.create(
        file=("ratings.csv.gz", gzip.compress(table.encode())), purpose="fine-tune"
    )
    done = client.files.wait_for_processing(file.id, poll_interval=0.05, max_wait_seconds=30)
    assert done.status == "processed"

    def create(**chosen: Any) -> Any:
        # The client's own types have no such method.
        body = {
            "model": "tiny",
            "training_file": file.id,
            "method": {"type": "kto", "kto": {"hyperparameters": chosen}},
            "market": {"bid": "12.50", "deadline": "+10m"},
        }
        return client.post("/fine_tuning/jobs", cast_to=object, body=body)

    job = create(beta=0.2, batch_size=4)
    assert job["market"]["decision"] == "admitted"
    assert job["method"]["type"] == "kto"
    used = job["method"]["kto"]["hyperparameters"]
    assert (used["batch_size"], used["beta"]) == (4, 0.2)
    with pytest.raises(openai.BadRequestError, match="batch_size: is 1 for method 'kto'") as one:
        create(batch_size=1)
    assert one.value.param == "hyperparameters.batch_size"


def test_hyperparameters_are_those_of_the_method_or_beside_it(
    served: Served, client: openai.OpenAI
) -> None:
    def create(method: Any) -> Any:
        return client.fine_tuning.jobs.create(
            model="tiny",
            training_file=served.upload(),
            method=method,
            hyperparameters={"n_epochs": 5},
            extra_body={"market": {"bid": "12.50", "deadline": "+10m"}},
        )

    assert create({"type": "supervised"}).hyperparameters.n_epochs == 5
    both = r"hyperparameters: is given beside method\.supervised\.hyperparameters"
    with pytest.raises(openai.BadRequestError, match=both):
        create({"type": "supervised", "supervised": {"hyperparameters": {"batch_size": 4}}})
