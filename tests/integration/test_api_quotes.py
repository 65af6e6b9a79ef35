"""A line of a quote is to be had as long as its plan is, and by its number alone."""

from datetime import datetime
from typing import Any

import httpx2
import openai
import pytest

from auctune.service.config.models import ServiceConfig
from support.serving import Served, make_file, make_zone

pytest_plugins = ["support.served_market"]


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    return make_file([make_zone(), make_zone("second")])


class Buyer:
    """Somebody with a data set, in a market of which the next slots are sold."""

    def __init__(self, served: Served, name: str) -> None:
        self.served = served
        self.key = served.key(name)
        self.file = served.upload(self.key)

    def quote(self, market: dict[str, Any], **fields: Any) -> Any:
        terms = {"zone": "default", **market}
        return self._post("/v1/quotes", {**self.work(), **fields, "market": terms}).json()

    def accept(self, quote: str, line: int, market: Any = None, **fields: Any) -> httpx2.Response:
        terms = {"quote": quote, "line": line, **(market or {})}
        return self._post("/v1/fine_tuning/jobs", {**fields, "market": terms})

    def work(self) -> dict[str, Any]:
        return {"model": "tiny", "training_file": self.file}

    def balance(self) -> str:
        with self.served.http(self.key) as http:
            return str(http.get("/v1/ledger").json()["balance"])

    def _post(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        with self.served.http(self.key) as http:
            return http.post(path, json=body)


def sell_next_slots(served: Served, count: int) -> None:
    """Have both nodes be full for so many slots; nobody bids more than the price."""
    buyer, now = Buyer(served, "early"), served.clock.time
    wish = {"deadline": f"+{60 * (count + 1)}s", "share": 1.0}
    while (quoted := buyer.quote(wish))["lines"]:
        buyer.accept(quoted["id"], 0)
    assert served.clock.time == now


def test_a_line_stays_to_be_had_until_its_plan_begins(served: Served) -> None:
    buyer = Buyer(served, "patient")
    # Too few bids to learn from: prices of free cells stay as they are.
    sell_next_slots(served, 3)
    quoted = buyer.quote({"deadline": "+20m", "share": 1.0})
    line = quoted["lines"][0]
    slots_to_come = round((line["start"] - served.clock.time) // 60)
    assert slots_to_come > 2
    served.clock.pass_slots(slots_to_come - 1)
    answer = buyer.accept(quoted["id"], 0)
    assert answer.status_code == 200, answer.text
    market = answer.json()["market"]
    assert (market["payment"], market["plan"]["finish"]) == (line["price"], line["finish"])
    assert buyer.balance() == line["price"]


def test_a_line_whose_plan_has_begun_says_so_and_comes_with_a_new_menu(served: Served) -> None:
    buyer = Buyer(served, "slow")
    quoted = buyer.quote({"deadline": "+20m"})
    line = quoted["lines"][0]
    while served.clock.time < line["start"]:
        served.clock.pass_slots(1)
    answer = buyer.accept(quoted["id"], 0)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "quote_changed")
    assert f"began at {line['start_time']}" in answer.json()["error"]["message"]
    fresh = answer.json()["quote"]
    assert fresh["lines"][0]["start"] > line["start"]
    assert buyer.balance() == "0.0000"
    again = buyer.accept(fresh["id"], 0).json()
    assert again["market"]["payment"] == fresh["lines"][0]["price"] == buyer.balance()


def test_quote_and_line_say_all(served: Served) -> None:
    buyer = Buyer(served, "brief")
    wishes = {"deadline": "+20m", "zone": "second", "share": 0.5, "lora": {"rank": 4, "alpha": 8}}
    quoted = buyer.quote(
        wishes, hyperparameters={"n_epochs": 2}, suffix="rain", metadata={"name": "rain"}
    )
    job = buyer.accept(quoted["id"], 0).json()
    assert job["model"] == "tiny"
    assert (job["training_file"], job["seed"]) == (buyer.file, quoted["seed"])
    assert (job["hyperparameters"]["n_epochs"], job["metadata"]) == (2, {"name": "rain"})
    market = job["market"]
    assert (market["zone"], market["lora"]["rank"]) == ("second", 4)
    assert market["bid"] == market["payment"] == quoted["lines"][0]["price"]
    named = buyer.accept(quoted["id"], 0, {"bid": "90"}, metadata={"name": "sun"}).json()
    assert (named["metadata"], named["market"]["bid"]) == ({"name": "sun"}, "90.0000")


@pytest.mark.parametrize("bid", ["NaN", "1e400", "-Infinity", "1e30", "-1", '"a lot"', "0.00001"])
def test_a_quote_with_a_bid_that_is_no_amount_of_money_is_refused(served: Served, bid: str) -> None:
    file = served.upload()
    body = f'{{"model": "tiny", "training_file": "{file}", "market": {{"bid": {bid}}}}}'
    with served.http() as http:
        headers = {"Content-Type": "application/json"}
        answer = http.post("/v1/quotes", content=body.encode(), headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"].startswith("market.bid")


def test_the_openai_client_accepts_with_what_it_must_name(served: Served) -> None:
    buyer = Buyer(served, "usual")
    quoted = buyer.quote({"deadline": "+20m"}, hyperparameters={"n_epochs": 2}, seed=7)
    job = served.client(buyer.key).fine_tuning.jobs.create(
        **buyer.work(), extra_body={"market": {"quote": quoted["id"], "line": 0}}
    )
    assert (job.hyperparameters.n_epochs, job.seed) == (2, 7)


OTHERWISE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"model": "gpt-5"}, {}, "model"),
    ({"training_file": "file-other"}, {}, "training_file"),
    ({"validation_file": "file-other"}, {}, "validation_file"),
    ({"hyperparameters": {"n_epochs": 3}}, {}, "hyperparameters.n_epochs"),
    ({"seed": 8}, {}, "seed"),
    ({}, {"zone": "second"}, "market.zone"),
    ({}, {"share": 0.5}, "market.share"),
    ({}, {"repair": True}, "market.repair"),
    ({}, {"deadline": "+5m"}, "market.deadline"),
    ({}, {"lora": {"rank": 9}}, "market.lora.rank"),
    ({}, {"line": 99}, "market.line"),
    ({}, {"line": None}, "market.line"),
    ({}, {"bid": "0.0001"}, "market.bid"),
    ({}, {"what_if": True}, "market.what_if"),
    ({}, {"nonsense": 1}, "market.nonsense"),
]


@pytest.mark.parametrize(("fields", "market", "param"), OTHERWISE, ids=lambda one: str(one)[:40])
def test_what_disagrees_with_the_quote_is_named_and_not_charged(
    served: Served, fields: dict[str, Any], market: dict[str, Any], param: str
) -> None:
    buyer = Buyer(served, f"fickle{len(served.users)}")
    asked = {"deadline": "+20m", "lora": {"rank": 4}, "zone": "default"}
    quoted = buyer.quote(asked, hyperparameters={"n_epochs": 2}, seed=7)
    answer = buyer.accept(quoted["id"], 0, market, **fields)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
    assert buyer.balance() == "0.0000"


def test_what_agrees_may_be_said_again(served: Served) -> None:
    buyer = Buyer(served, "wordy")
    asked = {"deadline": "+20m", "lora": {"rank": 4}, "repair": False}
    fields = {"hyperparameters": {"n_epochs": 2}, "seed": 7}
    quoted = buyer.quote(asked, **fields)
    answer = buyer.accept(quoted["id"], 0, asked, **fields, **buyer.work())
    assert answer.status_code == 200, answer.text


def test_without_a_quote_model_and_data_are_needed(served: Served) -> None:
    for missing in ("model", "training_file"):
        body = {**Buyer(served, f"short-{missing}").work(), "market": {"bid": "1"}}
        del body[missing]
        with served.http() as http:
            answer = http.post("/v1/fine_tuning/jobs", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, missing)


def test_moments_stand_in_a_quote_for_programs_and_for_people(served: Served) -> None:
    quoted = Buyer(served, "reader").quote({"deadline": "+20m"})
    told = {quoted["expires_at"]: quoted["expires_time"]}
    for line in quoted["lines"]:
        told |= {line["start"]: line["start_time"], line["finish"]: line["finish_time"]}
    assert len(told) > 2
    for moment, text in told.items():
        assert text.endswith("Z")
        assert datetime.fromisoformat(text).timestamp() == moment


def test_a_deadline_that_leaves_no_slot_is_answered_in_words_for_people(served: Served) -> None:
    buyer = Buyer(served, "hasty")
    with pytest.raises(openai.BadRequestError, match=r"expected \d{4}-\d\d-\d\dT[\d:]+Z, when"):
        served.bid(served.client(buyer.key), buyer.file, deadline="+1s")


LONG = "".join(
    f'{{"prompt": "day {day}", "completion": "{"rain " * (30 if day % 10 == 0 else 3)}"}}\n'
    for day in range(50)
)


def test_what_is_lost_of_the_data_is_said_before_anything_is_paid(served: Served) -> None:
    buyer = Buyer(served, "careful")
    buyer.file = served.upload(buyer.key, rows=LONG)
    market: dict[str, Any] = {"deadline": "+20m", "lora": {"max_length": 20}}
    (note,) = buyer.quote(market)["notes"]
    assert note.startswith("rows longer than max_length = 20 are truncated: 5 of 50; ")
    fits = int(note.removesuffix(" no row is truncated").rpartition(" = ")[2])
    assert buyer.quote({**market, "lora": {"max_length": fits}})["notes"] == []
    assert len(buyer.quote({**market, "lora": {"max_length": fits - 1}})["notes"]) == 1
    client = served.client(buyer.key)
    tried = served.bid(client, buyer.file, **market, what_if=True)
    assert tried.market["notes"] == [note]
    for bid in ("100000", "0.0001"):
        job = served.bid(client, buyer.file, bid=bid, **market)
        assert (job.market["decision"] is None, job.market["notes"]) == (False, [note])


@pytest.mark.parametrize("place", ["training_file", "validation_file"])
def test_data_that_would_lose_many_ends_are_refused_unless_their_owner_insists(
    served: Served, place: str
) -> None:
    buyer = Buyer(served, f"hasty {place}")
    short = served.upload(buyer.key, rows='{"text": "rain"}\n' * 50)
    files = {"training_file": short, place: served.upload(buyer.key, rows=LONG)}
    market = {"zone": "default", "bid": "100", "deadline": "+20m"}
    lora = {"max_length": 4}
    with served.http(buyer.key) as http:
        for path in ("/v1/quotes", "/v1/fine_tuning/jobs"):
            terms: dict[str, Any] = {**market, "lora": lora}
            body = {"model": "tiny", **files, "market": terms}
            answer = http.post(path, json=body)
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            assert "rows longer than max_length = 4 would be truncated: 50" in error["message"]
            assert "truncate = true" in error["message"]
            assert error["param"] == place
            terms["lora"] = {**lora, "truncate": True}
            allowed = http.post(path, json=body)
            assert allowed.status_code == 200, allowed.text
