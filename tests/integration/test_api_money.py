"""What is shown is what is charged; budgets count payments; nothing is charged twice."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest

from auctune.service.accounts.registry import Budget
from auctune.service.config.models import ServiceConfig
from support.serving import Served, make_file, make_zone, serving

pytest_plugins = ["support.served_market"]


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    return make_file([make_zone(), make_zone("second")])


def quote(served: Served, user: str, file: str, **terms: Any) -> Any:
    with served.http(served.users[user]) as http:
        body = {"model": "tiny", "training_file": file, "market": terms}
        answer = http.post("/v1/quotes", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


def balance(served: Served, user: str) -> Decimal:
    with served.http(served.users[user]) as http:
        return Decimal(http.get("/v1/ledger").json()["balance"])


def test_each_line_of_a_menu_is_charged_as_it_was_shown(served: Served) -> None:
    client = served.client(served.key("buyer"))
    file = served.upload(served.users["buyer"])
    menu = quote(served, "buyer", file, deadline="+20m")
    assert menu["lines"]
    owed = Decimal(0)
    for line in menu["lines"]:
        again = quote(served, "buyer", file, deadline="+20m")["lines"]
        assert line["line"] < len(again)
        shown = again[line["line"]]
        job = served.bid(
            client, file, bid=None, deadline=None, quote=quote_id(served, file), line=line["line"]
        )
        assert job.market["payment"] == shown["price"]
        assert job.market["plan"]["finish"] == shown["finish"]
        owed += Decimal(shown["price"])
    assert balance(served, "buyer") == owed


def quote_id(served: Served, file: str) -> str:
    return str(quote(served, "buyer", file, deadline="+20m")["id"])


def test_a_line_that_is_taken_is_not_charged_and_comes_with_a_new_menu(served: Served) -> None:
    client = served.client(served.key("late"))
    file = served.upload(served.users["late"])
    shown = quote(served, "late", file, deadline="+20m", share=1.0)
    accept = {"quote": shown["id"], "line": 0, "share": 1.0, "bid": None, "deadline": None}
    before = balance(served, "late")
    # Each takes the line's own cells, until there is no room in them.
    answers = [accept_line(served, "late", file, accept) for _ in range(20)]
    statuses = [answer.status_code for answer in answers]
    taken = statuses.index(422)
    assert taken >= 1
    assert statuses == [200] * taken + [422] * (20 - taken)
    body = answers[-1].json()
    assert body["error"]["code"] == "quote_changed"
    assert body["quote"]["id"] != shown["id"]
    assert body["quote"]["lines"][0] != shown["lines"][0]
    assert balance(served, "late") == before + taken * Decimal(shown["lines"][0]["price"])
    fresh = {**accept, "quote": body["quote"]["id"]}
    assert served.bid(client, file, **fresh).market["payment"] == body["quote"]["lines"][0]["price"]


def accept_line(served: Served, user: str, file: str, terms: dict[str, Any]) -> Any:
    market = {name: value for name, value in terms.items() if value is not None}
    body = {"model": "tiny", "training_file": file, "market": market}
    with served.http(served.users[user]) as http:
        return http.post("/v1/fine_tuning/jobs", json=body)


def test_a_line_that_has_passed_is_answered_by_an_empty_menu(served: Served) -> None:
    client = served.client(served.key("slow"))
    file = served.upload(served.users["slow"])
    shown = quote(served, "slow", file, deadline="+3m")
    served.clock.pass_slots(5)
    with pytest.raises(openai.UnprocessableEntityError) as changed:
        served.bid(client, file, bid=None, deadline=None, quote=shown["id"], line=0)
    assert changed.value.response.json()["quote"]["lines"] == []


def test_a_quote_is_its_owners_and_of_its_own_job(served: Served) -> None:
    file = served.upload(served.key("one"))
    shown = quote(served, "one", file, deadline="+20m")
    thief = served.client(served.key("thief"))
    with pytest.raises(openai.BadRequestError) as refused:
        served.bid(thief, file, bid=None, deadline=None, quote=shown["id"], line=0)
    assert refused.value.param == "market.quote"
    one = served.client(served.users["one"])
    for terms in ({"share": 0.5}, {"zone": "second"}, {"line": 99}):
        with pytest.raises(openai.BadRequestError):
            served.bid(
                one,
                file,
                **{"bid": None, "deadline": None, "quote": shown["id"], "line": 0} | terms,
            )
    assert balance(served, "one") == 0


def budget(amount: str, seconds: float = 86_400.0) -> Budget:
    return Budget(Decimal(amount), seconds)


def test_a_budget_counts_payments_and_not_bids(served: Served) -> None:
    client = served.client(served.key("thrifty", budget=budget("2.0000")))
    file = served.upload(served.users["thrifty"])
    paid = Decimal(0)
    for _ in range(50):
        job = served.bid(client, file, bid="1000")
        if job.market["reason"] == "over_budget":
            break
        paid += Decimal(job.market["payment"])
    assert job.market["reason"] == "over_budget"
    assert job.market["min_bid"] is None
    assert 0 < paid <= Decimal("2.0000")
    assert balance(served, "thrifty") == paid
    price, left = job.market["price"], job.market["budget_remaining"]
    assert Decimal(left) == 2 - paid < Decimal(price)
    assert job.error.message == f"the price, {price}, exceeds the remaining budget, {left}"
    again = client.fine_tuning.jobs.retrieve(job.id)
    assert (again.error, again.market["price"]) == (job.error, price)
    tried = served.bid(client, file, bid="1000", what_if=True)
    assert (tried.market["budget_remaining"], tried.error.message) == (left, job.error.message)
    event = client.fine_tuning.jobs.list_events(job.id, limit=1).data[0]
    assert event.message == f"Rejected (over_budget): {job.error.message}"
    with served.http(served.users["thrifty"]) as http:
        assert Decimal(http.get("/v1/ledger").json()["budget_remaining"]) == 2 - paid


def test_a_budget_that_is_set_later_counts_what_was_paid_before(served: Served) -> None:
    client = served.client(served.key("grown"))
    file = served.upload(served.users["grown"])
    paid = Decimal(served.bid(client, file).market["payment"])
    with served.http(served.operator) as http:
        body = {"id": "grown", "budget": {"amount": "1000", "seconds": 86_400}}
        assert http.post("/v1/users", json=body).status_code == 200
    with served.http(served.users["grown"]) as http:
        assert Decimal(http.get("/v1/ledger").json()["budget_remaining"]) == 1000 - paid


def test_a_change_of_a_user_leaves_what_it_does_not_say(served: Served) -> None:
    most = {"amount": "7.0000", "seconds": 60.0}
    with served.http(served.operator) as http:

        def put(kind: str, **body: Any) -> dict[str, Any]:
            answer = http.post(f"/v1/{kind}", json=body)
            assert answer.status_code == 200, answer.text
            return {name: answer.json()[name] for name in ("team", "budget")}

        put("teams", id="shop", budget=most)
        assert put("teams", id="shop") == {"team": None, "budget": most}
        assert put("users", id="kim", team="shop") == {"team": "shop", "budget": None}
        assert put("users", id="kim", budget=most) == {"team": "shop", "budget": most}
        assert put("users", id="kim") == {"team": "shop", "budget": most}
        assert put("users", id="kim", budget=None) == {"team": "shop", "budget": None}
        assert put("users", id="kim", team=None) == {"team": None, "budget": None}
        assert put("teams", id="shop", budget=None) == {"team": None, "budget": None}


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    gate = threading.Barrier(count)

    def run(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_a_team_never_pays_more_than_its_budget_whoever_bids_at_once_and_where(
    served: Served,
) -> None:
    async def add_team() -> None:
        await served.service.put_team("crew", budget("3.0000"))

    served.run(add_team)
    users = [f"sailor{n}" for n in range(6)]
    files = {name: served.upload(served.key(name, team="crew")) for name in users}
    clients = {name: served.client(served.users[name]) for name in users}

    def bid(number: int) -> Any:
        name = users[number % len(users)]
        zone = ("default", "second")[number % 2]
        return served.bid(clients[name], files[name], bid="1000", zone=zone)

    jobs = together(12, bid)
    paid = sum(Decimal(job.market["payment"] or 0) for job in jobs)
    assert 0 < paid <= Decimal("3.0000")
    assert any(job.market["reason"] == "over_budget" for job in jobs)
    assert sum(balance(served, name) for name in users) == paid


def post(served: Served, body: dict[str, Any], **headers: str) -> Any:
    with served.http() as http:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return http.post("/v1/fine_tuning/jobs", json=body, headers=named)


def bid_body(file: str, **market: Any) -> dict[str, Any]:
    terms = {"bid": "100", "deadline": "+20m", **market}
    return {"model": "tiny", "training_file": file, "market": terms}


def test_an_idempotency_key_makes_one_job_however_many_ask_at_once(served: Served) -> None:
    body = bid_body(served.upload(served.key("ada")))
    before = balance(served, "ada")
    answers = together(8, lambda _: post(served, body, Idempotency_Key="once"))
    assert {answer.status_code for answer in answers} == {200}
    jobs = {answer.json()["id"] for answer in answers}
    assert len(jobs) == 1
    assert balance(served, "ada") - before == Decimal(answers[0].json()["market"]["payment"])
    other = post(served, {**body, "seed": 1}, Idempotency_Key="once")
    assert (other.status_code, other.json()["error"]["param"]) == (400, "Idempotency-Key")


def test_a_body_tried_again_gives_the_first_job_and_a_new_request_another(served: Served) -> None:
    body = bid_body(served.upload())
    first = post(served, body, x_stainless_retry_count="0").json()["id"]
    again = post(served, body, x_stainless_retry_count="1").json()["id"]
    served.clock.pass_slots(11)
    late = post(served, body, x_stainless_retry_count="1").json()["id"]
    assert first == again
    assert late != first
    assert post(served, body).json()["id"] not in (first, late)


def test_a_request_that_failed_may_be_made_again(served: Served) -> None:
    wrong = bid_body(served.upload(), deadline="+1s")
    assert post(served, wrong, Idempotency_Key="twice").status_code == 400
    right = bid_body(wrong["training_file"])
    assert post(served, right, Idempotency_Key="twice").status_code == 200


def test_a_restart_keeps_budgets_keys_replies_and_jobs(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.client(served.key("ada", budget=budget("100")))
        body = bid_body(served.upload())
        job = post(served, body, Idempotency_Key="k").json()
        statement = client.get("/ledger", cast_to=object)
        secret, clock = served.users["ada"], served.clock
    with serving(tmp_path, clock=clock) as served:
        served.users["ada"] = secret
        assert served.client().get("/ledger", cast_to=object) == statement
        assert post(served, body, Idempotency_Key="k").json() == job
        assert post(served, body, x_stainless_retry_count="1").json()["id"] != job["id"]
        assert [one.id for one in served.client().fine_tuning.jobs.list()][-1] == job["id"]


def test_all_accounts_sum_to_zero(served: Served) -> None:
    with served.http(served.operator) as http:
        accounts = http.get("/v1/ledger/balances").json()["accounts"]
    assert accounts
    assert sum(Decimal(amount) for amount in accounts.values()) == 0
