"""Budgets of keys, and the alerts of all budgets: to webhooks, on the page, once in a period."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import openai
import pytest

from auctune.service.config.models import ServiceConfig, WebhooksConfig
from auctune.service.webhooks import dispatcher
from support.page_visitor import PageVisitor
from support.pool_events import joined, quantum, send_pool_event, settle_dropped
from support.serving import Clock, Served, make_file, make_pool, make_zone, serving
from support.waits import WAIT_SECONDS

PERIOD = 3600.0


class Receiver:
    """Records the notifications of budgets that are sent to it, and accepts them if it is open."""

    def __init__(self) -> None:
        self.received: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if body["type"] == "budget.reached":
                    receiver.received.put({**body, "webhook-id": self.headers["webhook-id"]})
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def next(self) -> dict[str, Any]:
        return self.received.get(timeout=WAIT_SECONDS)

    def is_quiet(self) -> bool:
        try:
            self.received.get(timeout=0.2)
        except Empty:
            return True
        return False


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that was refused is made again at once."""
    monkeypatch.setattr(dispatcher, "INITIAL_BACKOFF_SECONDS", 0.05)


def settings(*zones: Any) -> ServiceConfig:
    webhooks = WebhooksConfig(private_addresses=True)
    # Such a zone charges 2 for an hour of work from the first bid on.
    return make_file(zones or [make_zone()]).model_copy(update={"webhooks": webhooks})


def put(served: Served, kind: str, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
    with served.http(served.operator) as http:
        answer = http.post(f"/v1/{kind}", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def budget(amount: Decimal | str, seconds: float = PERIOD) -> dict[str, Any]:
    return {"budget": {"amount": str(amount), "seconds": seconds}}


def listen(served: Served, key: str, receiver: Receiver) -> None:
    with served.http(key) as http:
        http.post("/v1/webhooks", json={"url": receiver.url}).raise_for_status()


def pay(served: Served, client: openai.OpenAI, file: str) -> Decimal:
    """Submit a job, and return what was paid for it."""
    job = served.bid(client, file)
    assert job.market["decision"] == "admitted", job.market
    return Decimal(job.market["payment"])


def keys_of(served: Served) -> dict[str, dict[str, Any]]:
    with served.http(served.operator) as http:
        return {one["id"]: one for one in http.get("/v1/keys").json()["data"]}


@contextmanager
def paying(
    folder: Path, clock: Clock | None = None, *zones: Any
) -> Iterator[tuple[Served, dict[str, Any], dict[str, Any]]]:
    """A market, and two keys of ada's."""
    with serving(folder, settings(*zones), clock) as served:
        put(served, "teams", {"id": "lab"})
        put(served, "users", {"id": "ada", "team": "lab"})
        yield served, put(served, "keys", {"user": "ada"}), put(served, "keys", {"user": "ada"})


def test_a_keys_budget_counts_its_own_payments_alone_also_after_a_restart(tmp_path: Path) -> None:
    with paying(tmp_path) as (served, first, second):
        file = served.upload(first["secret"])
        paid = pay(served, served.client(first["secret"]), file)
        pay(served, served.client(second["secret"]), file)
        changed = put(served, f"keys/{first['id']}", budget(paid))
        assert (changed["budget_spent"], changed["budget_remaining"]) == (str(paid), "0.0000")
        refused = served.bid(served.client(first["secret"]), file)
        assert refused.market["reason"] == "over_budget"
        assert refused.market["budget_remaining"] == "0.0000"
        pay(served, served.client(second["secret"]), file)
        with served.http(first["secret"]) as http:
            assert http.get("/v1/ledger").json()["budget_remaining"] == "0.0000"
        with served.http(second["secret"]) as http:
            assert http.get("/v1/ledger").json()["budget_remaining"] is None
    with serving(tmp_path, settings(), served.clock) as again:
        assert keys_of(again)[first["id"]]["budget_spent"] == str(paid)
        again.clock.pass_slots(int(PERIOD / 60) + 1)
        assert keys_of(again)[first["id"]]["budget_spent"] == "0.0000"
        # An omitted budget stays, and null removes it.
        assert put(again, f"keys/{first['id']}", {})["budget"] is not None
        assert put(again, f"keys/{first['id']}", {"budget": None})["budget"] is None


def test_a_hold_for_a_metered_job_counts_to_its_key_until_it_is_released(tmp_path: Path) -> None:
    with paying(tmp_path, None, make_pool()) as (served, first, second):
        client = served.client(first["secret"])
        file = served.upload(first["secret"])
        put(served, f"keys/{first['id']}", budget("10"))
        put(served, f"keys/{second['id']}", budget("10"))
        job = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=file,
            extra_body={"market": {"max_cost": "8", "deadline": "+20m", "target_loss": 3.0}},
        )
        assert job.market["metered"]["held"] == "8.0000"
        spent = {name: one["budget_spent"] for name, one in keys_of(served).items()}
        assert (spent[first["id"]], spent[second["id"]]) == ("8.0000", "0.0000")
    with serving(tmp_path, settings(make_pool()), served.clock) as again:
        assert keys_of(again)[first["id"]]["budget_spent"] == "8.0000"
        again.client(first["secret"]).fine_tuning.jobs.cancel(job.id)
        # The pool's present slot is still to be charged.
        metered = again.client(first["secret"]).fine_tuning.jobs.retrieve(job.id).market["metered"]
        assert Decimal(metered["held"]) < 8
        left = Decimal(metered["cost"]) + Decimal(metered["held"])
        assert Decimal(keys_of(again)[first["id"]]["budget_spent"]) == left


def test_charges_of_a_metered_job_count_to_its_key_for_a_period(tmp_path: Path) -> None:
    with paying(tmp_path, None, make_pool(price_per_second="0.01")) as (served, first, second):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        put(served, f"keys/{first['id']}", budget("10"))
        put(served, f"keys/{second['id']}", budget("10"))

        def spent() -> tuple[str, str]:
            found = keys_of(served)
            return found[first["id"]]["budget_spent"], found[second["id"]]["budget_spent"]

        job = client.fine_tuning.jobs.create(
            model="tiny",
            training_file=file,
            extra_body={"market": {"max_cost": "8", "deadline": "+20m", "target_loss": 0.5}},
        ).id
        unit = served.service.zones["pool"].clock.slot()
        send_pool_event(served, joined(job, unit))
        trained = quantum(
            unit, {job: 0.75}, batches=[400], losses=[2.5], seconds=[40.0], read=[(32, 320)]
        )
        send_pool_event(served, trained)
        assert spent() == ("8.0000", "0.0000")
        client.fine_tuning.jobs.cancel(job)
        settle_dropped(served)
        assert spent() == ("0.4000", "0.0000")
        served.clock.pass_slots(int(PERIOD / 60) + 1)
        assert spent() == ("0.0000", "0.0000")


def test_alerts_of_user_team_and_key_reach_the_webhooks_of_their_users(
    tmp_path: Path, receiver: Receiver
) -> None:
    with paying(tmp_path) as (served, first, _):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        listen(served, first["secret"], receiver)
        paid = pay(served, client, file)
        assert receiver.is_quiet()
        again = pay(served, client, file)
        # The next payment reaches 80% of the user's, and all of the others'.
        total = paid + 2 * again
        put(served, "users", {"id": "ada", **budget((total / Decimal("0.9")).quantize(paid))})
        put(served, "teams", {"id": "lab", **budget(total)})
        put(served, f"keys/{first['id']}", budget(total))
        spent = str(paid + again + pay(served, client, file))
        alerts = [receiver.next() for _ in range(5)]
        reached = sorted((one["data"]["id"], one["data"]["percent"]) for one in alerts)
        assert reached == [
            (f"key {first['id']}", 80),
            (f"key {first['id']}", 100),
            ("team lab", 80),
            ("team lab", 100),
            ("user ada", 80),
        ]
        assert {one["data"]["spent"] for one in alerts} == {spent}
        assert len({one["webhook-id"] for one in alerts}) == 5
        assert receiver.is_quiet()
        with served.http(first["secret"]) as http:
            shown = http.get("/v1/ledger").json()["budget_alerts"]
        assert sorted((one["owner"], one["percent"]) for one in shown) == reached


def pay_until(served: Served, client: openai.OpenAI, file: str, percent: int) -> None:
    """Submit jobs until ada has spent so much of her budget."""
    while 100 * Decimal(ada(served)["budget_spent"]) < percent * Decimal(
        ada(served)["budget"]["amount"]
    ):
        pay(served, client, file)


def ada(served: Served) -> dict[str, Any]:
    with served.http(served.operator) as http:
        (found,) = [one for one in http.get("/v1/users").json()["data"] if one["id"] == "ada"]
    return dict(found)


@pytest.mark.slow
def test_an_alert_is_raised_once_in_a_period_whatever_is_paid_or_restarted(
    tmp_path: Path, receiver: Receiver
) -> None:
    with paying(tmp_path) as (served, first, _):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        listen(served, first["secret"], receiver)
        put(served, "users", {"id": "ada", **budget(10 * pay(served, client, file))})
        pay_until(served, client, file, 80)
        alert = receiver.next()
        assert (alert["data"]["id"], alert["data"]["percent"]) == ("user ada", 80)
        served.bid(client, file)
        assert receiver.is_quiet()
    with serving(tmp_path, settings(), served.clock) as again:
        client = again.client(first["secret"])
        served.bid(client, file)
        assert receiver.is_quiet()
        again.clock.pass_slots(int(PERIOD / 60) + 1)
        assert Decimal(ada(again)["budget_spent"]) == 0
        with again.http(first["secret"]) as http:
            assert http.get("/v1/ledger").json()["budget_alerts"] == []
        pay_until(again, client, file, 80)
        later = receiver.next()
        assert later["data"]["percent"] == 80
        assert later["id"] != alert["id"]


def test_another_amount_is_another_budget(tmp_path: Path, receiver: Receiver) -> None:
    with paying(tmp_path) as (served, first, _):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        listen(served, first["secret"], receiver)
        paid = pay(served, client, file)
        for amount in (2 * paid, 3 * paid):
            put(served, "users", {"id": "ada", **budget(amount)})
            pay_until(served, client, file, 80)
            alerts = [receiver.next()["data"] for _ in range(2)]
            assert sorted(one["percent"] for one in alerts) == [80, 100]
            assert {one["amount"] for one in alerts} == {str(amount)}


@pytest.mark.slow
def test_an_alert_that_was_not_delivered_is_sent_after_a_restart_and_then_never_again(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.status = 500
    with paying(tmp_path) as (served, first, _):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        listen(served, first["secret"], receiver)
        put(served, "users", {"id": "ada", **budget(10 * pay(served, client, file))})
        pay_until(served, client, file, 80)
        failed = receiver.next()
    while not receiver.is_quiet():
        pass
    receiver.status = 204
    with serving(tmp_path, settings(), served.clock):
        assert receiver.next() == failed
        assert receiver.is_quiet()
    with serving(tmp_path, settings(), served.clock):
        assert receiver.is_quiet()


@pytest.mark.slow
def test_the_page_shows_alerts_beside_the_money(tmp_path: Path) -> None:
    with paying(tmp_path) as (served, first, _):
        client, file = served.client(first["secret"]), served.upload(first["secret"])
        put(served, f"keys/{first['id']}", budget(2 * pay(served, client, file)))
        visitor = PageVisitor(served, first["secret"])
        assert "% of the budget" not in visitor.get("/page/money").text
        pay(served, client, file)
        shown = visitor.get("/page/money").text
        assert f"80% of the budget of key {first['id']}" in shown
        assert f"100% of the budget of key {first['id']}" in shown
        accounts = PageVisitor(served, served.operator).get("/page/accounts").text
        assert "100% reached" in accounts
