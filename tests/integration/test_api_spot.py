"""A zone that rents beside an auction: estimates, caps, what is set aside, and which is chosen."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auctune.engine.messages.spot import CapReached, SpotReply
from auctune.service.accounts.registry import Budget
from auctune.service.config.models import ServiceConfig
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.state import SpotEventType
from auctune.service.zones.spot.worker import on_message
from auctune.service.zones.spot.zone import SpotZone
from support import run_events
from support.serving import SLOT_SECONDS, Served, make_file, make_zone, serving
from support.spot_zones import spot_zone
from support.zone_state import records
from support.zones import record

JOBS, QUOTES = "/v1/fine_tuning/jobs", "/v1/quotes"

pytest_plugins = ["support.served_market"]


@pytest.fixture(scope="module")
def service_file(tmp_path_factory: pytest.TempPathFactory) -> ServiceConfig:
    folder = tmp_path_factory.mktemp("markets")
    return make_file([make_zone("owned", energy_cost=8.0), spot_zone(folder)])


def work(served: Served, **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "training_file": served.upload(), **more}


def post(served: Served, path: str, body: dict[str, Any], key: str | None = None) -> Any:
    with served.http(key) as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(served: Served, path: str, body: dict[str, Any]) -> Any:
    with served.http() as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def actor(served: Served) -> ZoneActor[SpotZone]:
    zone = served.service.zones["rented"]
    assert isinstance(zone, SpotGateway)
    return zone.actor


def send(served: Served, job: str, message: SpotReply) -> None:
    """Have a message of a job's process recorded."""
    actor(served).submit(lambda zone: on_message(zone, job, message)).result(60)


def slot(served: Served, job: str, number: int, paid: float) -> None:
    held: Any = {"on_demand": 1, "spot": 1, "spot_before": min(number, 1)}
    send(served, job, run_events.slot(number, price=0.25, paid=paid, **held))


def statement(served: Served, key: str | None = None) -> Any:
    with served.http(key) as http:
        return http.get("/v1/ledger").json()


def admitted(served: Served, key: str | None = None, cap: str = "50", **terms: Any) -> Any:
    market = {"zone": "rented", "deadline": "+8m", "max_cost": cap, **terms}
    body = {"model": "tiny", "training_file": served.upload(key), "market": market}
    job = post(served, JOBS, body, key)
    assert job["market"]["decision"] == "admitted", job
    return job


def test_both_zones_quote_and_the_default_is_the_cheaper_one_that_keeps_the_limit(
    served: Served,
) -> None:
    quoted = post(served, QUOTES, work(served, market={"deadline": "+8m"}))
    said = {one["zone"]: one for one in quoted["alternatives"]}
    assert {name: one["kind"] for name, one in said.items()} == {
        "owned": "auction",
        "rented": "spot",
    }
    assert quoted["zone"] == min(said, key=lambda name: Decimal(said[name]["cost"])) == "rented"
    found = quoted["estimate"]
    assert (quoted["lines"], found["binding"], found["cap"]) == ([], False, None)
    assert Decimal(found["expected_cost"]) <= Decimal(found["p90_cost"])
    assert said["rented"]["cost"] == found["p90_cost"]
    assert (said["rented"]["risk"], said["rented"]["finish"]) == (
        found["risk"],
        found["finish_p90"],
    )
    job = post(served, JOBS, work(served, market={"deadline": "+8m", "bid": "60"}))
    assert (job["market"]["zone"], job["market"]["decision"]) == ("rented", "admitted")
    assert job["market"]["metered"]["max_cost"] == "60.0000"
    owned = post(served, QUOTES, work(served, market={"deadline": "+8m", "zone": "owned"}))
    assert (owned["estimate"], bool(owned["lines"])) == (None, True)


def test_a_cap_that_is_too_low_is_refused_with_the_least_that_would_do(served: Served) -> None:
    asked = work(served)
    terms = {"zone": "rented", "deadline": "+8m"}
    low = {**terms, "max_cost": "0.0001"}
    job = post(served, JOBS, {**asked, "market": low})
    assert (job["status"], job["error"]["code"]) == ("failed", "bid_rejected")
    assert (job["market"]["reason"], job["error"]["param"]) == ("over_cap", "market.max_cost")
    least = job["market"]["metered"]["min_max_cost"]
    enough = post(served, JOBS, {**asked, "market": {**terms, "max_cost": least, "what_if": True}})
    assert enough["market"]["decision"] == "admitted"
    without = post(served, QUOTES, {**asked, "market": {"deadline": "+8m", "max_cost": "0.0001"}})
    reasons = {one["zone"]: one["unavailable_reason"] for one in without["alternatives"]}
    assert reasons["rented"] == f"it may cost {least}, above the cap of 0.0001"
    assert without["zone"] == "owned"


def test_what_a_slot_costs_is_charged_once_and_the_rest_is_given_back(served: Served) -> None:
    key = served.key("bea", budget=Budget(Decimal(100), 86_400.0))
    job = admitted(served, key, cap="30")
    assert statement(served, key)["budget_remaining"] == "70.0000"
    slot(served, job["id"], 0, 2.0)
    slot(served, job["id"], 1, 3.0)
    # A GPU-slot costs the service 1, and its owner half as much again.
    with served.http(key) as http:
        seen = http.get(f"{JOBS}/{job['id']}").json()["market"]["metered"]
        assert (seen["cost"], seen["held"], seen["slots"]) == ("7.5000", "22.5000", 2)
        assert statement(served, key)["balance"] == "7.5000"
        assert statement(served, key)["budget_remaining"] == "70.0000"
        unexplained = http.get(f"{JOBS}/{job['id']}/explanation").json()["error"]
        assert unexplained["code"] == "not_explained"
        http.post(f"{JOBS}/{job['id']}/cancel").raise_for_status()
        events = http.get(f"{JOBS}/{job['id']}/events").json()["data"]
    assert statement(served, key) | {"object": "", "storage": {}} == {
        "object": "", "user": "bea", "balance": "7.5000", "budget_remaining": "92.5000",
        "budget_alerts": [], "storage": {},
    }  # fmt: skip
    told = [one["message"] for one in events]
    assert sum("1 on-demand and 1 spot" in text for text in told) == 2
    with served.http(served.operator) as http:
        balances = http.get("/v1/ledger/balances").json()["accounts"]
    assert balances["hold:bea"] == "0.0000"
    assert sum(map(Decimal, balances.values())) == 0


def test_no_more_than_what_is_left_of_a_budget_is_set_aside(served: Served) -> None:
    key = served.key("cem", budget=Budget(Decimal(20), 86_400.0))
    job = admitted(served, key, cap="500")
    assert statement(served, key)["budget_remaining"] == "0.0000"
    body = {
        "model": "tiny",
        "training_file": served.upload(key),
        "market": {"zone": "rented", "deadline": "+8m", "max_cost": "500"},
    }
    again = post(served, JOBS, body, key)
    assert again["market"]["reason"] == "over_budget"
    slot(served, job["id"], 0, 100.0)
    assert statement(served, key)["balance"] == "20.0000"
    send(served, job["id"], CapReached(rate=4.0))
    with served.http(key) as http:
        seen = http.get(f"{JOBS}/{job['id']}").json()
    assert (seen["status"], seen["error"]["code"]) == ("failed", "cap_reached")
    assert seen["error"]["message"] == (
        "the cap of 20.0000 is reached: 0.0000 remains, and the next slot would cost 6.0000"
    )
    assert (seen["market"]["refunded"], seen["market"]["payment"]) == (False, "20.0000")


def test_what_is_set_aside_counts_however_long_ago_and_not_once_it_is_released(
    served: Served,
) -> None:
    key = served.key("dora", budget=Budget(Decimal(50), 2 * SLOT_SECONDS))
    name = admitted(served, key, cap="30")["id"]
    slot(served, name, 0, 4.0)
    served.clock.pass_slots(3)
    # What was charged is of an earlier span; what is still set aside is not.
    assert statement(served, key)["budget_remaining"] == "26.0000"
    with served.http(key) as http:
        http.post(f"{JOBS}/{name}/cancel").raise_for_status()
    assert statement(served, key)["budget_remaining"] == "50.0000"
    other = admitted(served, key, cap="10")
    slot(served, other["id"], 0, 2.0)
    assert statement(served, key)["budget_remaining"] == "40.0000"


def test_a_job_that_is_late_is_worth_less_and_a_failure_of_ours_is_refunded(served: Served) -> None:
    value = {"amount": "90", "deadline": "+10m", "zero_at": "+20m"}
    market = {"zone": "rented", "value": value, "max_cost": "40"}
    job = post(served, JOBS, work(served, market=market))
    assert job["market"]["decision"] == "admitted"
    name = job["id"]
    slot(served, name, 0, 1.0)
    losses = [[1, 8, 80, 2.0, 0.25], [2, 16, 160, 1.5, 0.5], [3, 20, 200, 1.25, 0.5]]
    send(served, name, run_events.slot_done(20, steps=3, losses=losses, paid=1.0))
    with served.http() as http:
        points = http.get(f"{JOBS}/{name}/events").json()["data"]
        assert http.get(f"{JOBS}/{name}/checkpoints").json()["data"] == []
    metrics = [one["data"] for one in points if one["type"] == "metrics"]
    assert [one["train_loss"] for one in metrics] == [1.25]
    first = actor(served).submit(lambda zone: zone.state.jobs[name].first).result(60)
    deadline = job["market"]["deadline"]
    clock = served.service.zones["rented"].clock
    # Half of the time between deadline and nothing.
    finish = (deadline + 300 - clock.slot_start(first)) / SLOT_SECONDS
    send(served, name, run_events.ended(finish))
    worth = actor(served).submit(lambda zone: zone.state.jobs[name].worth.reached).result(60)
    assert worth == pytest.approx(Decimal(45), abs=Decimal("0.01"))
    with served.http() as http:
        assert http.get(f"{JOBS}/{name}").json()["market"]["metered"]["value"] == str(worth)
    actor(served).submit(lambda zone: zone.fail(name, "service_failed", "ours", None)).result(60)
    with served.http() as http:
        over = http.get(f"{JOBS}/{name}").json()
    assert (over["market"]["refunded"], over["market"]["state"]) == (True, "refunded")


def test_a_paused_job_can_always_go_on(served: Served) -> None:
    name = admitted(served)["id"]
    with served.http() as http:
        paused = http.post(f"{JOBS}/{name}/pause").json()
        assert paused["market"]["state"] == "paused"
        assert http.post(f"{JOBS}/{name}/pause").status_code == 400
        assert http.post(f"{JOBS}/{name}/resume").json()["market"]["state"] == "planned"


@pytest.mark.parametrize(
    ("market", "param"),
    [
        ({"deadline": "+8m", "target_loss": 1.0, "max_cost": "1"}, "market.target_loss"),
        ({"deadline": "+8m", "sites": {"a": "file-1"}, "max_cost": "1"}, "market.sites"),
        ({"deadline": "+8m", "repair": True, "max_cost": "1"}, "market.repair"),
        ({"deadline": "+8m"}, "market.max_cost"),
        ({"max_cost": "1"}, "market.deadline"),
        ({"max_cost": "1", "deadline": "+1s"}, "market.deadline"),
        ({"bid": "1", "value": {"amount": "2"}, "deadline": "+8m"}, "market.value"),
        ({"value": {"amount": "2", "zero_at": "+1m"}, "deadline": "+8m"}, "market.value.zero_at"),
    ],
)
def test_what_it_cannot_take_is_refused_by_name(
    served: Served, market: dict[str, Any], param: str
) -> None:
    error = refused(served, JOBS, work(served, market={**market, "zone": "rented"}))
    assert error["param"] == param


def test_an_accepted_estimate_is_its_job_with_what_was_shown_as_its_cap(served: Served) -> None:
    wishes = {"zone": "rented", "deadline": "+8m"}
    quoted = post(served, QUOTES, work(served, market=wishes, metadata={"name": "sun"}))
    shown = quoted["estimate"]
    accepted = {"market": {"quote": quoted["id"]}, "metadata": {"name": "rain"}}
    job = post(served, JOBS, accepted)
    market = job["market"]
    assert (market["zone"], market["decision"], market["plan"]) == ("rented", "admitted", None)
    assert (job["training_file"], job["seed"]) == (quoted["training_file"], quoted["seed"])
    assert job["metadata"] == {"name": "rain"}
    assert market["metered"]["max_cost"] == market["metered"]["held"] == shown["p90_cost"]
    assert market["metered"]["estimate"] == {**shown, "cap": shown["p90_cost"]}
    more = {"market": {"quote": quoted["id"], "max_cost": "60"}}
    assert post(served, JOBS, more)["market"]["metered"]["max_cost"] == "60.0000"


@pytest.mark.parametrize(
    ("fields", "terms", "param"),
    [
        ({}, {"line": 0}, "market.line"),
        ({}, {"max_cost": "0.0001"}, "market.max_cost"),
        ({}, {"deadline": "+9m"}, "market.deadline"),
        ({}, {"zone": "owned"}, "market.zone"),
        ({"model": "gpt-5"}, {}, "model"),
    ],
)
def test_what_disagrees_with_an_estimate_is_named(
    served: Served, fields: dict[str, Any], terms: dict[str, Any], param: str
) -> None:
    quoted = post(served, QUOTES, work(served, market={"deadline": "+8m", "zone": "rented"}))
    accepted = {**fields, "market": {"quote": quoted["id"], **terms}}
    assert refused(served, JOBS, accepted)["param"] == param


def test_an_estimate_that_got_worse_is_not_accepted_and_comes_anew(served: Served) -> None:
    key = served.key("late")
    file = served.upload(key)
    wishes = {"zone": "rented", "deadline": "+8m", "bid": "40"}
    body = {"model": "tiny", "training_file": file, "market": wishes}
    quoted = post(served, QUOTES, body, key)
    # What has a minute less is done on demand.
    served.clock.pass_slots(6)
    with served.http(key) as http:
        answer = http.post(JOBS, json={"market": {"quote": quoted["id"]}})
    told = answer.json()
    assert (answer.status_code, told["error"]["code"]) == (422, "quote_changed")
    fresh = told["quote"]["estimate"]
    assert Decimal(fresh["p90_cost"]) > Decimal(quoted["estimate"]["p90_cost"])
    assert fresh["p90_cost"] in told["error"]["message"]
    left = statement(served, key)
    assert left["balance"] == "0.0000"
    job = post(served, JOBS, {"market": {"quote": told["quote"]["id"]}}, key)
    # The moment that +8m was when it was asked for.
    assert job["market"]["deadline"] == pytest.approx(served.clock() + 120, abs=1)
    assert job["market"]["metered"]["max_cost"] == "40.0000"


def test_where_a_zone_is_full_by_now_an_estimate_is_not_accepted(tmp_path: Path) -> None:
    zone = spot_zone(tmp_path).model_copy(update={"max_jobs": 1})
    with serving(tmp_path / "market", make_file([zone])) as small:
        quoted = post(small, QUOTES, work(small, market={"deadline": "+8m"}))
        admitted(small)
        with small.http() as http:
            answer = http.post(JOBS, json={"market": {"quote": quoted["id"]}})
            jobs = http.get(JOBS).json()["data"]
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "quote_changed")
    assert "maximum number of jobs" in answer.json()["error"]["message"]
    assert len(jobs) == 1


def test_operators_see_market_and_holdings(served: Served) -> None:
    job = admitted(served)
    served.clock.pass_slots(1)
    slot(served, job["id"], 0, 2.0)
    with served.http(served.operator) as http:
        state = http.get("/v1/zones/rented/state").json()
        found = http.get("/v1/zones/rented/decisions").json()["data"]
    assert "(on demand: 1.5, at a cost of 1)" in state["sections"][0]["caption"]
    slots = records(state, "Spot market and holdings")
    assert {(one["on demand held"], one["spot held"]) for one in slots} >= {(1, 1)}
    assert found[0]["metered"]["max_cost"] == "50.0000"
    with served.http() as http:
        assert http.get("/v1/zones/rented/state").status_code == 403


@pytest.mark.slow
def test_all_of_it_stands_after_a_restart(tmp_path: Path) -> None:
    file = make_file([spot_zone(tmp_path)])
    with serving(tmp_path / "market", file) as first:
        job = admitted(first)["id"]
        slot(first, job, 0, 2.0)
        key = first.users["ada"]
        with first.http(key) as http:
            before = http.get(f"{JOBS}/{job}").json(), http.get("/v1/ledger").json()
        state = actor(first).submit(lambda zone: zone.state).result(60)
    with serving(tmp_path / "market", file, first.clock) as again:
        with again.http(key) as http:
            assert (http.get(f"{JOBS}/{job}").json(), http.get("/v1/ledger").json()) == before
        assert actor(again).submit(lambda zone: zone.state.jobs).result(60) == state.jobs
        slot(again, job, 1, 2.0)
        done = {"state": "done", "note": "", "finish": 1.5, "worth": None}
        actor(again).submit(
            lambda zone: record(zone, SpotEventType.TRAINING_COMPLETED, job, done)
        ).result(60)
        ended = {"files": ["file-a"], "checkpoints": []}
        actor(again).submit(lambda zone: record(zone, EventType.FINISHED, job, ended)).result(60)
        with again.http(key) as http:
            over = http.get(f"{JOBS}/{job}").json()
    assert (over["status"], over["market"]["payment"]) == ("succeeded", "6.0000")
    assert over["market"]["metered"]["held"] == "0.0000"
