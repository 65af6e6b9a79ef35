"""A job for which no zone is named goes to the one that does it for least, and stays there."""

from pathlib import Path
from typing import Any

import pytest

from auctune.service.settings.service_file import ServiceFile
from support.serving import Clock, Served, make_file, make_zone, serving

PATH = "/v1/fine_tuning/jobs"

pytest_plugins = ["support.served_market"]


def two_zones() -> ServiceFile:
    """The first one in the settings is the dearer one; the cheaper one looks less far ahead."""
    return make_file(
        [make_zone("dear", energy_cost=8.0), make_zone("cheap", nodes=1, slots=10, energy_cost=1.0)]
    )


@pytest.fixture(scope="module")
def service_file() -> ServiceFile:
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
        assert (said["risk"], said["why_not"]) == (0.0, None)
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
    assert (job["market"]["zone"], job["market"]["alternatives"]) == ("cheap", [])
    assert job["market"]["payment"] == quoted["lines"][-1]["price"]


def test_what_no_zone_can_do_is_answered_as_the_first_one_answers_it(served: Served) -> None:
    asked, soon = work(served), {"deadline": "+1s"}
    with served.http() as http:
        either = http.post("/v1/quotes", json={**asked, "market": soon})
        first = http.post("/v1/quotes", json={**asked, "market": {**soon, "zone": "dear"}})
    assert (either.status_code, either.json()) == (400, first.json())


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
        reasons = {one["zone"]: one["why_not"] for one in job["market"]["alternatives"]}
        assert reasons == {"dear": None, "cheap": "it cannot be done by its deadline"}
        with served.http(served.operator) as http:
            http.post("/v1/zones/dear/pause").raise_for_status()
        quoted = post(served, "/v1/quotes", {**asked, "market": wish})
        assert (quoted["zone"], quoted["lines"]) == ("cheap", [])
        assert quoted["alternatives"][0]["why_not"] == "it takes no bids now"
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
