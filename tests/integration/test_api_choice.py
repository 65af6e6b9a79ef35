"""A job for which no zone is named goes to the one that does it for least, and stays there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auctune.service.config.models import ServiceConfig
from support.edge_zones import edge_constants, edge_entry, rows_file
from support.serving import SLOT_SECONDS, Clock, Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone

PATH = "/v1/fine_tuning/jobs"

pytest_plugins = ["support.served_market"]


def two_zones() -> ServiceConfig:
    """The first one in the settings is the dearer one; the cheaper one looks less far ahead."""
    return make_file(
        [make_zone("dear", energy_cost=8.0), make_zone("cheap", nodes=1, slots=10, energy_cost=1.0)]
    )


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    return two_zones()


def work(served: Served) -> dict[str, Any]:
    return {"model": "tiny", "training_file": served.upload()}


def post(served: Served, path: str, body: dict[str, Any]) -> Any:
    with served.http() as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_quote_without_a_zone_is_the_cheapest_ones_and_says_what_all_said(served: Served) -> None:
    asked = work(served)
    quoted = post(served, "/v1/quotes", {**asked, "market": {"deadline": "+8m"}})
    assert (quoted["zone"], quoted["kind"]) == ("cheap", "auction")
    by_zone = {one["zone"]: one for one in quoted["alternatives"]}
    assert list(by_zone) == ["dear", "cheap"]
    for name, said in by_zone.items():
        market = {"deadline": "+8m", "zone": name}
        alone = post(served, "/v1/quotes", {**asked, "market": market})
        last = alone["lines"][-1]
        assert (said["cost"], said["finish"]) == (last["price"], last["finish"])
        assert (said["risk"], said["unavailable_reason"]) == (0.0, None)
        assert alone["alternatives"] == []
        assert alone["zone"] == name
    assert float(by_zone["cheap"]["cost"]) < float(by_zone["dear"]["cost"])


def test_a_bid_goes_where_its_dry_run_went_and_a_named_zone_has_no_alternatives(
    served: Served,
) -> None:
    asked = work(served)
    market = {"bid": "100", "deadline": "+8m"}
    tried = post(served, PATH, {**asked, "market": {**market, "what_if": True}})
    job = post(served, PATH, {**asked, "market": market})
    named = post(served, PATH, {**asked, "market": {**market, "zone": "dear"}})
    assert tried["market"]["zone"] == job["market"]["zone"] == "cheap"
    assert tried["market"]["payment"] == job["market"]["payment"]
    assert [one["zone"] for one in job["market"]["alternatives"]] == ["dear", "cheap"]
    assert (named["market"]["zone"], named["market"]["alternatives"]) == ("dear", [])


def test_a_bid_with_data_that_nobody_looked_at_is_led_to_a_zone_all_the_same(
    served: Served,
) -> None:
    market = {"bid": "100", "deadline": "+8m", "lora": {"max_length": 77}}
    job = post(served, PATH, {**work(served), "market": market})
    assert (job["status"], job["market"]["zone"]) == ("queued", "cheap")


def test_a_line_of_the_default_zone_is_accepted_there(served: Served) -> None:
    quoted = post(served, "/v1/quotes", {**work(served), "market": {"deadline": "+8m"}})
    terms = {"quote": quoted["id"], "line": len(quoted["lines"]) - 1}
    job = post(served, PATH, {"market": terms})
    assert (job["market"]["zone"], job["market"]["payment"]) == (
        "cheap",
        quoted["lines"][-1]["price"],
    )
    assert job["market"]["alternatives"] == quoted["alternatives"]


def test_what_no_zone_can_do_is_answered_as_the_first_one_answers_it(served: Served) -> None:
    asked, soon = work(served), {"deadline": "+1s"}
    with served.http() as http:
        either = http.post("/v1/quotes", json={**asked, "market": soon})
        first = http.post("/v1/quotes", json={**asked, "market": {**soon, "zone": "dear"}})
    assert (either.status_code, either.json()) == (400, first.json())


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("all-kinds")
    sites = {"slot_seconds": SLOT_SECONDS, "slots": 20}
    edges = [edge_entry("sites", **sites), edge_entry("more-sites", **sites)]
    zones = [make_zone("owned", energy_cost=0.1), spot_zone(folder), make_pool(), *edges]
    with edge_constants(step_seconds=24.0), serving(folder / "market", make_file(zones)) as opened:
        opened.key("ada")
        yield opened


def asked_of(served: Served, kind: str) -> dict[str, Any]:
    """A request whose default zone is of this kind."""
    if kind != "edge":
        target = {"target_loss": 0.5} if kind == "timeshare" else {}
        return {**work(served), "market": {"deadline": "+8m", "max_cost": "40", **target}}
    client = served.client()
    content = rows_file(0, 16)
    file = client.files.create(file=("rows.jsonl", content), purpose="fine-tune").id
    client.files.wait_for_processing(file, poll_interval=0.05, max_wait_seconds=30)
    market = {"deadline": "+8m", "sites": {"a": file}}
    return {"model": "tiny", "training_file": file, "seed": 1, "market": market} | {
        "hyperparameters": {"n_epochs": 1, "batch_size": 8}
    }


@pytest.mark.parametrize("kind", ["auction", "spot", "timeshare", "edge"])
def test_jobs_of_all_kinds_keep_what_zones_said_and_are_paused_in_the_same_words(
    all_kinds: Served, kind: str
) -> None:
    asked = asked_of(all_kinds, kind)
    if kind == "spot":
        with all_kinds.http(all_kinds.operator) as http:
            http.post("/v1/zones/owned/pause").raise_for_status()
    if kind == "auction":
        del asked["market"]["max_cost"]
    quoted = post(all_kinds, "/v1/quotes", asked)
    assert quoted["kind"] == kind
    line = {"line": 0} if quoted["lines"] else {}
    job = post(all_kinds, PATH, {"market": {"quote": quoted["id"], **line}})
    market = job["market"]
    assert market["alternatives"] == quoted["alternatives"] != []
    # A line that is late has the time that its owner asked for.
    assert market["deadline"] == pytest.approx(all_kinds.clock() + 480, abs=1)
    path = f"{PATH}/{job['id']}"

    def refused(action: str) -> tuple[str, str]:
        with all_kinds.http() as http:
            answer = http.post(f"{path}/{action}")
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        return error["param"], error["message"].replace(job["id"], "JOB")

    assert refused("resume") == ("id", "id: JOB is not paused; expected a paused job")
    post(all_kinds, f"{path}/pause", {})
    message = "id: JOB is paused already; expected a job that is not paused"
    assert refused("pause") == ("id", message)
    post(all_kinds, f"{path}/resume", {})
    post(all_kinds, f"{path}/cancel", {})
    assert refused("pause") == refused("resume") == ("id", "the job is over")
    if kind == "spot":
        with all_kinds.http(all_kinds.operator) as http:
            http.post("/v1/zones/owned/resume").raise_for_status()


def test_operators_see_the_state_of_a_zone_of_each_kind_and_users_do_not(all_kinds: Served) -> None:
    with all_kinds.http(all_kinds.operator) as http, all_kinds.http() as of_user:
        for zone in http.get("/v1/zones").json()["data"]:
            path = f"/v1/zones/{zone['id']}/state"
            state = http.get(path).json()
            assert (state["zone"], state["kind"]) == (zone["id"], zone["kind"])
            assert state["slot_seconds"] == zone["slot_seconds"]
            assert of_user.get(path).status_code == 403
        assert http.get("/v1/zones/nowhere/state").status_code == 404


def test_a_job_that_no_zone_takes_is_answered_with_the_reasons_of_all(all_kinds: Served) -> None:
    market = {"deadline": "+2m", "target_loss": 1.0, "max_cost": "3"}
    asked = {**work(all_kinds), "market": market, "hyperparameters": {"n_epochs": 4}}
    with all_kinds.http() as http:
        for path in ("/v1/quotes", PATH):
            answer = http.post(path, json=asked)
            assert answer.status_code == 400
            message = answer.json()["error"]["message"]
            assert "owned (auction): does not support market.target_loss" in message
            assert "pool (timeshare): trains to a loss, and does not support" in message
            assert "n_epochs" in message


def test_where_the_cheapest_is_full_or_paused_the_next_one_has_the_job(tmp_path: Path) -> None:
    with serving(tmp_path / "market", two_zones()) as served:
        asked = work(served)
        wish = {"deadline": "+10m", "share": 1.0}
        market = {**wish, "bid": "100"}
        cheap = {**asked, "market": {**wish, "zone": "cheap"}}
        while (quoted := post(served, "/v1/quotes", cheap))["lines"]:
            post(served, PATH, {"market": {"quote": quoted["id"], "line": 0}})
        job = post(served, PATH, {**asked, "market": market})
        assert job["market"]["zone"] == "dear"
        reasons = {one["zone"]: one["unavailable_reason"] for one in job["market"]["alternatives"]}
        assert reasons == {"dear": None, "cheap": "it cannot be done by its deadline"}
        with served.http(served.operator) as http:
            http.post("/v1/zones/dear/pause").raise_for_status()
        quoted = post(served, "/v1/quotes", {**asked, "market": wish})
        assert (quoted["zone"], quoted["lines"]) == ("cheap", [])
        assert quoted["alternatives"][0]["unavailable_reason"] == "it takes no bids now"
        with served.http(served.operator) as http:
            http.post("/v1/zones/cheap/pause").raise_for_status()
        with served.http() as http:
            refused = http.post(PATH, json={**asked, "market": market})
        assert refused.json()["error"]["code"] == "zone_paused"


def test_where_a_job_went_and_what_it_was_chosen_from_stands_after_a_restart(
    tmp_path: Path,
) -> None:
    clock, folder = Clock(), tmp_path / "market"
    with serving(folder, two_zones(), clock) as served:
        body = {**work(served), "market": {"bid": "100", "deadline": "+8m"}}
        job = post(served, PATH, body)
        key = served.users["ada"]
    assert job["market"]["alternatives"]
    with serving(folder, two_zones(), clock) as again, again.http(key) as http:
        assert http.get(f"/v1/fine_tuning/jobs/{job['id']}").json() == job
        state = again.ask(lambda zone: zone.state.jobs[job["id"]].request, "cheap")
    assert [one["zone"] for one in state["alternatives"]] == ["dear", "cheap"]
