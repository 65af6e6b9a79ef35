"""An edge zone beside others: who takes jobs with data at sites, quotes, lines, money, restarts."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from operator import methodcaller
from pathlib import Path
from typing import Any

import openai
import pytest
from typer.testing import CliRunner

from auctune.cli.app import app
from auctune.service.accounts.registry import Budget
from auctune.service.config.models import ServiceConfig
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.edge.gateway import EdgeGateway
from auctune.service.zones.edge.zone import EdgeZone
from support.edge_zones import edge_constants, edge_entry, rows_file
from support.page_visitor import PageVisitor, faults
from support.serving import SLOT_SECONDS, Served, make_file, make_zone, serving
from support.small_bases import write_pairs
from support.zone_state import records
from support.zones import record

JOBS, QUOTES = "/v1/fine_tuning/jobs", "/v1/quotes"

pytest_plugins = ["support.served_market"]


@pytest.fixture(scope="module")
def service_file() -> Iterator[ServiceConfig]:
    with edge_constants(step_seconds=24.0):
        yield make_file([make_zone("owned"), sites_zone()])


def sites_zone() -> Any:
    """A worker trains 8 rows in a slot, and a chunk has four."""
    return edge_entry("sites", slot_seconds=SLOT_SECONDS, slots=20)


def upload(served: Served, content: bytes, key: str | None = None) -> str:
    client = served.client(key)
    file = client.files.create(file=("rows.jsonl", content), purpose="fine-tune")
    done = client.files.wait_for_processing(file.id, poll_interval=0.05, max_wait_seconds=30)
    return str(done.id)


def work(served: Served, key: str | None = None, samples: int = 16, **market: Any) -> Any:
    sites = {site: upload(served, rows_file(n, samples), key) for n, site in enumerate("ab")}
    terms = {"deadline": "+8m", "sites": sites, "zone": "sites", **market}
    chosen = {"n_epochs": 1, "batch_size": 8}
    body = {"model": "tiny", "training_file": sites["a"], "seed": 1, "market": terms}
    return {**body, "hyperparameters": chosen}


def post(served: Served, path: str, body: dict[str, Any], key: str | None = None) -> Any:
    with served.http(key) as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(served: Served, path: str, body: dict[str, Any], status: int = 400) -> Any:
    with served.http() as http:
        answer = http.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def actor(served: Served) -> ZoneActor[EdgeZone]:
    zone = served.service.zones["sites"]
    assert isinstance(zone, EdgeGateway)
    return zone.actor


def test_an_auction_refuses_sites_by_name(served: Served) -> None:
    body = work(served, bid="5", zone="owned")
    for path in (JOBS, QUOTES):
        assert refused(served, path, body)["param"] == "market.sites"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"sites": None}, "market.sites"),
        ({"sites": {"nowhere": "file-1"}}, "market.sites"),
        ({"target_loss": 1.0}, "market.target_loss"),
        ({"share": 0.5}, "market.share"),
        ({"repair": True}, "market.repair"),
        ({"lora": {"patience": 2}}, "market.lora.patience"),
        ({"deadline": "+1s"}, "market.deadline"),
        ({"bid": None}, "market.bid"),
    ],
)
def test_what_it_cannot_take_is_refused_by_name(
    served: Served, change: dict[str, Any], param: str
) -> None:
    body = work(served, bid="5")
    terms = {name: value for name, value in {**body["market"], **change}.items() if value}
    if "nowhere" in terms.get("sites", {}):
        terms["sites"] = {"nowhere": body["training_file"]}
    assert refused(served, JOBS, {**body, "market": terms})["param"] == param


def test_files_must_be_rows_and_one_s_own(served: Served) -> None:
    body = work(served, bid="5")
    rows, market = served.upload(), body["market"]
    wrong = served.client().files.create(file=("x", b"no rows\n"), purpose="fine-tune").id
    other = upload(served, rows_file(7), served.key("eve"))
    for file, path in ((wrong, QUOTES), (other, JOBS)):
        sites = {**market["sites"], "b": file}
        error = refused(served, path, {**body, "market": {**market, "sites": sites}})
        assert error["param"].startswith("market.sites.b")
    error = refused(served, JOBS, {**body, "training_file": rows})
    assert error["param"] == "training_file"


def test_preferences_are_learnt_from_pairs_at_all_sites_alone(
    served: Served, tmp_path: Path
) -> None:
    content = write_pairs(tmp_path / "pairs.jsonl", 16).read_bytes()
    body, pairs = work(served, bid="20"), upload(served, content)
    sites = {"a": pairs, "b": pairs}
    wanted = {
        **body,
        "training_file": pairs,
        "validation_file": pairs,
        "method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2}}},
        "market": {**body["market"], "sites": sites},
    }
    del wanted["hyperparameters"]
    # Not bought: the sites are for other tests.
    assert post(served, QUOTES, wanted)["lines"]
    mixed = {**wanted["market"], "sites": {**sites, "b": body["market"]["sites"]["b"]}}
    error = refused(served, JOBS, {**wanted, "market": mixed})
    assert error["param"] == "market.sites.b"
    assert "has chats, completions or texts, for method 'dpo'" in error["message"]
    del wanted["method"]
    assert refused(served, QUOTES, wanted)["param"] == "market.sites.a"


def test_jobs_with_rows_at_sites_go_to_the_zone_that_has_sites(served: Served) -> None:
    body = work(served)
    del body["market"]["zone"]
    quoted = post(served, QUOTES, body)
    assert quoted["zone"] == "sites"
    reasons = {one["zone"]: one["unavailable_reason"] for one in quoted["alternatives"]}
    assert reasons == {"owned": "does not support market.sites", "sites": None}


def test_a_line_of_a_quote_is_bought_as_shown_and_not_when_it_is_gone(served: Served) -> None:
    body = work(served, samples=40, deadline="+15m")
    quoted = post(served, QUOTES, body)
    assert (quoted["kind"], quoted["zone"], quoted["estimate"]) == ("edge", "sites", None)
    prices = [Decimal(line["price"]) for line in quoted["lines"]]
    assert prices == sorted(prices, reverse=True)
    line = quoted["lines"][-1]
    bought = {"market": {"quote": quoted["id"], "line": line["line"]}}
    job = post(served, JOBS, bought)
    assert job["market"]["payment"] == line["price"]
    assert job["market"]["plan"]["finish"] == line["finish"]
    assert job["market"]["edge"]["samples"] == {"a": 40, "b": 40}
    assert job["market"]["edge"]["sites"] == body["market"]["sites"]
    with served.http() as http:
        for _ in range(10):
            answer = http.post(JOBS, json=bought)
            if answer.status_code != 200:
                break
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "quote_changed"


def test_a_job_s_price_is_paid_explained_and_earned(served: Served) -> None:
    key = served.key("bea", budget=Budget(Decimal(100), 86_400.0))
    job = post(served, JOBS, work(served, key, bid="60"), key)
    market = job["market"]
    assert (job["status"], market["decision"]) == ("queued", "admitted")
    with served.http(key) as http:
        why = http.get(f"{JOBS}/{job['id']}/explanation").json()
        left = Decimal(http.get("/v1/ledger").json()["budget_remaining"])
        assert left == 100 - Decimal(market["payment"])
        events = http.get(f"{JOBS}/{job['id']}/events").json()["data"]
        http.post(f"{JOBS}/{job['id']}/cancel").raise_for_status()
        over = http.get(f"{JOBS}/{job['id']}").json()
    assert why["chosen"]["price"] == why["payment"] == market["payment"]
    parts = why["chosen"]["compute"] + why["chosen"]["traffic"]
    assert parts == pytest.approx(float(market["payment"]), abs=1e-4)
    assert events[0]["message"] == f"Admitted for {market['payment']}"
    assert (over["status"], over["market"]["payment"]) == ("cancelled", market["payment"])


def test_a_job_that_bids_too_little_hears_the_least_that_would_do(served: Served) -> None:
    body = work(served, bid="0.0001")
    job = post(served, JOBS, body)
    assert (job["error"]["code"], job["error"]["param"]) == ("bid_rejected", "market.bid")
    least = job["market"]["min_bid"]
    again = {**body, "market": {**body["market"], "bid": least, "what_if": True}}
    assert post(served, JOBS, again)["market"]["decision"] == "admitted"
    with served.http() as http:
        why = http.get(f"{JOBS}/{job['id']}/explanation").json()
    assert (why["min_bid"], why["reason"]) == (least, "unprofitable")


def test_it_is_taken_up_by_the_official_client_in_strict_mode(served: Served) -> None:
    client = served.client()
    body = work(served, bid="60")
    job = client.fine_tuning.jobs.create(
        model="tiny",
        training_file=body["training_file"],
        hyperparameters=body["hyperparameters"],
        extra_body={"market": body["market"]},
    )
    assert job.status == "queued"
    assert client.fine_tuning.jobs.pause(job.id).market["state"] == "paused"
    with pytest.raises(openai.BadRequestError):
        client.fine_tuning.jobs.pause(job.id)
    assert client.fine_tuning.jobs.resume(job.id).market["state"] == "planned"
    # Its files stay while it needs them.
    for file in body["market"]["sites"].values():
        with pytest.raises(openai.APIStatusError):
            client.files.delete(file)
    client.fine_tuning.jobs.cancel(job.id)
    client.files.delete(body["market"]["sites"]["b"])


def test_a_job_whose_files_nobody_has_looked_at_is_decided_on_later(served: Served) -> None:
    body = work(served, bid="60")
    # Nobody has sized files for this length before.
    body["market"]["lora"] = {"max_length": 300}
    job = post(served, JOBS, body)
    assert job["status"] == "validating_files"
    client = served.client()
    found = served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job["id"]), "queued")
    assert found.market["decision"] == "admitted"


def test_operators_see_sites_prices_traffic_and_plans(served: Served) -> None:
    job = post(served, JOBS, work(served, bid="60"))
    with served.http(served.operator) as http:
        state = http.get("/v1/zones/sites/state").json()
        plans_ = http.get("/v1/zones/sites/plans").json()["data"]
        metrics = http.get("/metrics").text
    assert [(site["site"], site["capacity"]) for site in records(state, "Sites")] == [
        ("a", "2 cpu"),
        ("b", "2 cpu"),
        ("c", "1 cpu"),
    ]
    assert {one["job"] for one in records(state, "Jobs")} >= {job["id"]}
    devices, traffic = (
        {one["slot"]: one for one in records(state, title)}
        for title in ("Devices", "Traffic between sites")
    )
    for part in job["market"]["edge"]["slots"]:
        slot = devices[part["slot"]]
        assert slot["begins"] == part["begins_at"]
        assert all(0 < slot[f"{site} cpu in use"] <= 1 for site in part["workers"])
        assert traffic[part["slot"]]["price"] > 0
    assert job["id"] in {one["job"] for one in plans_}
    assert 'auctune_decisions_total{outcome="admitted",zone="sites"}' in metrics
    with served.http() as http:
        assert http.get("/v1/zones/sites/state").status_code == 403
        view = http.get("/v1/zones/sites").json()
    assert (view["kind"], view["model"], view["num_nodes"]) == ("edge", "tiny", 3)


@pytest.mark.slow
def test_the_page_shows_an_edge_job_its_explanation_and_its_zone(served: Served) -> None:
    key = served.key("dora")
    job = post(served, JOBS, work(served, key, bid="60"), key)
    quote = post(served, QUOTES, work(served, key), key)
    dora, operator = PageVisitor(served, key), PageVisitor(served, served.operator)
    for who, path in (
        (dora, f"jobs/{job['id']}"),
        (dora, f"jobs/{job['id']}/why"),
        (dora, "jobs"),
        (dora, f"quotes/{quote['id']}"),
        (operator, "zones/sites"),
        (operator, "market"),
    ):
        answer = who.get(f"/page/{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert not faults(answer), path
    own = dora.get(f"/page/jobs/{job['id']}").text
    assert "16 rows at a, 16 rows at b" in own
    zone = operator.get("/page/zones/sites").text
    assert re.search("In use: [0-9.]+% to [0-9.]+% in 20 slots, highest on [abc] ", zone)
    assert "failed slots" in zone


def test_a_lost_site_s_jobs_go_on_elsewhere_or_wait_for_it(served: Served) -> None:
    key = served.key("cem")
    job = post(served, JOBS, work(served, key, bid="60", deadline="+15m"), key)

    def lose(zone: EdgeZone) -> None:
        zone.begin_slots()
        zone.lose_site("a", ())

    actor(served).submit(lose).result(60)
    with served.http(key) as http:
        found = http.get(f"{JOBS}/{job['id']}").json()
        told = [one["message"] for one in http.get(f"{JOBS}/{job['id']}/events").json()["data"]]
    used = {site for part in found["market"]["edge"]["slots"] for site in part["workers"]}
    assert "a" not in used
    assert found["market"]["payment"] == job["market"]["payment"]
    assert any("site a was lost" in text for text in told)
    for site in "bc":
        actor(served).submit(methodcaller("lose_site", site=site, busy=())).result(60)
    with served.http(key) as http:
        waits = http.get(f"{JOBS}/{job['id']}").json()
        told = [one["message"] for one in http.get(f"{JOBS}/{job['id']}/events").json()["data"]]
    assert waits["status"] == "queued"
    assert any("waits for a site to return" in text for text in told)

    def look_again(zone: EdgeZone) -> None:
        zone.begin_slots()
        zone.replan_waiting(())

    served.clock.pass_slots(15)
    actor(served).submit(look_again).result(60)
    with served.http(key) as http:
        over = http.get(f"{JOBS}/{job['id']}").json()
        assert Decimal(http.get("/v1/ledger").json()["balance"]) == 0
    assert (over["status"], over["market"]["refunded"]) == ("failed", True)
    for site in "abc":
        actor(served).submit(methodcaller("return_site", site=site)).result(60)


def test_all_of_it_stands_after_a_restart(tmp_path: Path) -> None:
    file = make_file([sites_zone()])
    with serving(tmp_path / "market", file) as first:
        job = post(first, JOBS, work(first, bid="60"))["id"]
        key = first.users["ada"]
        with first.http(key) as http:
            before = http.get(f"{JOBS}/{job}").json(), http.get("/v1/ledger").json()
        state = actor(first).submit(lambda zone: zone.state).result(60)
        used = actor(first).submit(lambda zone: zone.eris.ledger.used.copy()).result(60)
    with serving(tmp_path / "market", file, first.clock) as again:
        with again.http(key) as http:
            assert (http.get(f"{JOBS}/{job}").json(), http.get("/v1/ledger").json()) == before
        assert actor(again).submit(lambda zone: zone.state.jobs).result(60) == state.jobs
        assert (actor(again).submit(lambda zone: zone.eris.ledger.used).result(60) == used).all()
        ended = {"files": ["file-a"], "checkpoints": []}
        actor(again).submit(lambda zone: record(zone, EventType.FINISHED, job, ended)).result(60)
        with again.http(key) as http:
            assert http.get(f"{JOBS}/{job}").json()["status"] == "succeeded"
    told = CliRunner().invoke(app, ["replay", "--data", str(tmp_path / "market")])
    assert told.exit_code == 0, told.output
    assert "identical under eris: 1 decision and 1 payment\n" in told.output
    others = ["--compare", "eris:pricing=paper,tiresias", "--json"]
    compared = CliRunner().invoke(app, ["replay", "--data", str(tmp_path / "market"), *others])
    assert compared.exit_code == 0, compared.output
    found = json.loads(compared.stdout)
    assert found["recorded"]["num_admitted"] == 1
    assert [one["name"] for one in found["mechanisms"]] == ["eris:pricing=paper", "tiresias"]
    other = make_file([sites_zone().model_copy(update={"traffic_mb_per_slot": 11.0})])
    with (
        pytest.raises(ValueError, match="traffic_mb_per_slot"),
        serving(tmp_path / "market", other),
    ):
        pass
