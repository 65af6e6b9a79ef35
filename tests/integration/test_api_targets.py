"""Jobs with a loss target by the API: an auction and a pool side by side; nobody trains here."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from auctune.engine.pool.events import JobOutlook, JobStatus
from support.pool_events import joined, quantum, send_pool_event, settle_dropped
from support.serving import Served, make_file, make_pool, make_zone, serving
from support.zone_state import records

PRICE = "0.0100"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    zones = [make_zone(), make_pool(price_per_second=PRICE)]
    with serving(tmp_path_factory.mktemp("market"), make_file(zones)) as opened:
        opened.key("ada")
        yield opened


@pytest.fixture(scope="module")
def http(served: Served) -> Iterator[httpx2.Client]:
    with served.http() as client:
        yield client


@pytest.fixture(scope="module")
def file(served: Served) -> str:
    return served.upload()


def ask(http: httpx2.Client, path: str, file: str, market: dict[str, Any], **more: Any) -> Any:
    body = {"model": "tiny", "training_file": file, "market": market, **more}
    return http.post(path, json=body)


TARGET = {"target_loss": 0.5, "deadline": "+20m", "max_cost": "2"}


def test_a_job_with_a_target_is_quoted_by_the_pool_and_no_auction(
    http: httpx2.Client, file: str
) -> None:
    quote = ask(http, "/v1/quotes", file, TARGET).json()
    assert quote["zone"] == "pool"
    assert quote["lines"] == []
    estimate = quote["estimate"]
    assert estimate["price_per_pool_second"] == PRICE
    # Nothing was seen: a made-up job stands for all, and the cap for all that it may cost.
    assert estimate["success_probability"] == 0.5
    assert estimate["p90_cost"] == "2.0000"
    assert estimate["binding"] is False
    said = {one["zone"]: one["unavailable_reason"] for one in quote["alternatives"]}
    assert said == {"default": "does not support market.target_loss", "pool": None}
    without = ask(http, "/v1/quotes", file, {"deadline": "+20m"}).json()
    assert without["zone"] == "default"
    assert {one["unavailable_reason"] for one in without["alternatives"]} == {
        None,
        "needs market.target_loss",
    }


@pytest.mark.parametrize(
    ("market", "more", "param"),
    [
        ({"deadline": "+20m"}, {}, "market.target_loss"),
        ({"target_loss": 0.5, "max_cost": "1"}, {}, "market.deadline"),
        ({"target_loss": 0.5, "deadline": "+20m"}, {}, "market.max_cost"),
        ({**TARGET, "max_cost": "0"}, {}, "market.max_cost"),
        ({**TARGET, "deadline": "+30s"}, {}, "market.deadline"),
        ({**TARGET, "deadline": "+900d"}, {}, "market.deadline"),
        ({**TARGET, "repair": True}, {}, "market.repair"),
        ({**TARGET, "lora": {"patience": 2}}, {}, "market.lora.patience"),
        (TARGET, {"hyperparameters": {"n_epochs": 3}}, "hyperparameters.n_epochs"),
        (TARGET, {"validation_file": "file-a"}, "validation_file"),
    ],
)
def test_what_has_no_meaning_in_the_pool_is_refused_by_name(
    http: httpx2.Client, file: str, market: Any, more: Any, param: str
) -> None:
    answer = ask(http, "/v1/fine_tuning/jobs", file, {**market, "zone": "pool"}, **more)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_target_that_pairs_have_before_they_are_learnt_is_refused(
    served: Served, http: httpx2.Client
) -> None:
    pairs = served.upload_pairs()
    for target, status in ((0.69, 200), (0.7, 400)):
        terms = {**TARGET, "zone": "pool", "target_loss": target}
        found = ask(http, "/v1/quotes", pairs, terms, method={"type": "dpo"})
        assert found.status_code == status, found.text
    assert found.json()["error"]["param"] == "market.target_loss"
    assert "below 0.693, the loss of preferences" in found.json()["error"]["message"]


@pytest.mark.parametrize("zone", ["pool", "default"])
def test_a_batch_of_more_rows_than_there_are_is_refused(
    http: httpx2.Client, file: str, zone: str
) -> None:
    terms = TARGET if zone == "pool" else {"bid": "5", "deadline": "+20m"}
    chosen = {"hyperparameters": {"batch_size": 10**9}}
    for path in ("/v1/quotes", "/v1/fine_tuning/jobs"):
        answer = ask(http, path, file, {**terms, "zone": zone}, **chosen)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "hyperparameters.batch_size"
        assert "the training file has 50 rows" in answer.json()["error"]["message"]


def test_an_accepted_estimate_of_the_pool_is_its_job(http: httpx2.Client, file: str) -> None:
    wishes = {"target_loss": 0.5, "deadline": "+20m", "zone": "pool"}
    quote = ask(http, "/v1/quotes", file, wishes).json()
    wrong = http.post("/v1/fine_tuning/jobs", json={"market": {"quote": quote["id"], "line": 0}})
    assert wrong.json()["error"]["param"] == "market.line"
    answer = http.post("/v1/fine_tuning/jobs", json={"market": {"quote": quote["id"]}})
    market = answer.json()["market"]
    assert (market["decision"], market["target"]["target_loss"]) == ("admitted", 0.5)
    assert market["metered"]["max_cost"] == quote["estimate"]["p90_cost"]
    http.post(f"/v1/fine_tuning/jobs/{answer.json()['id']}/cancel").raise_for_status()


def test_a_job_is_paused_resumed_charged_and_seen(
    served: Served, http: httpx2.Client, file: str
) -> None:
    made = ask(http, "/v1/fine_tuning/jobs", file, TARGET).json()
    job = made["id"]
    assert made["market"]["decision"] == "admitted"
    assert made["market"]["metered"]["held"] == "2.0000"
    path = f"/v1/fine_tuning/jobs/{job}"
    assert http.post(f"{path}/pause").json()["market"]["state"] == "paused"
    assert http.post(f"{path}/pause").status_code == 400
    assert http.post(f"{path}/resume").json()["market"]["state"] == "planned"
    unit = served.service.zones["pool"].clock.slot()
    send_pool_event(served, joined(job, unit))
    event = quantum(
        unit,
        {job: 0.75},
        batches=[400],
        losses=[2.5],
        seconds=[40.0],
        read=[(32, 320)],
        accuracies=[0.25],
    )
    outlook = JobOutlook(job, 0.75, 400, 2.5, 0.5, unit + 20, unit + 3.5, JobStatus.IN_TIME)
    send_pool_event(served, event, [outlook])
    market = http.get(path).json()["market"]
    assert market["metered"]["cost"] == "0.4000"
    target = market["target"]
    assert target["curve"] == [[400, 2.5]]
    assert (target["share"], target["best_loss"], target["verdict"]) == (0.75, 2.5, "in time")
    assert target["finish"] == served.clock() + 3.5 * 60
    told = [one["message"] for one in http.get(f"{path}/events").json()["data"]]
    assert told[0] == "400 batches trained, loss 2.5"
    metrics = http.get(f"{path}/events").json()["data"][0]["data"]
    assert (metrics["train_loss"], metrics["train_mean_token_accuracy"]) == (2.5, 0.25)
    with served.http(served.operator) as operator:
        state = operator.get("/v1/zones/pool/state").json()
        assert records(state, "Shares of the pool") == [
            {"slot": unit, "begins": served.clock(), "span": 1.0, "job": job, "share": 0.75}
        ]
        assert [(one["job"], one["best loss"]) for one in records(state, "Jobs")] == [
            (job, "2.500")
        ]
        assert http.get("/v1/zones/pool/state").status_code == 403
    assert http.post(f"{path}/cancel").json()["status"] == "cancelled"
    metered = http.get(path).json()["market"]["metered"]
    assert (metered["cost"], metered["held"]) == ("0.4000", "1.6000")
    # The pool was still training it.
    send_pool_event(served, replace(event, time=unit + 1, seconds=[20.0]))
    settle_dropped(served)
    found = http.get(path).json()
    metered = found["market"]["metered"]
    assert (found["status"], metered["cost"], metered["held"]) == ("cancelled", "0.6000", "0.0000")
    told = [one["message"] for one in http.get(f"{path}/events").json()["data"]]
    assert told[:3] == [
        "The pool has removed it; the amount on hold is released",
        "20.0 s of the pool, for 0.2000",
        "Cancelled by its owner",
    ]
