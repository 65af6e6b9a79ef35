"""What stored files cost: exactly, once, whatever ends the service, and where it is seen."""

import csv
import io
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from auctune.domain.money import STEP
from auctune.service import service as service_module
from auctune.service import storage_billing
from auctune.service.accounts.registry import Budget
from auctune.service.config.models import FilesConfig, ServiceConfig
from auctune.service.storage.event_log import EventType
from auctune.service.storage_billing import StorageBilling
from auctune.service.zones.core.events import GB_MONTH
from auctune.service.zones.core.zone import Zone
from support.page_visitor import PageVisitor
from support.serving import EPOCH, Clock, Served, make_file, make_zone, serving

pytest_plugins = ["support.store_fixtures"]

DAY = 86_400
# A kilobyte for a day costs some steps of money, and not a whole number of them.
PRICE = Decimal("1234567.8901")
ROWS = b'{"prompt": "how is the weather", "completion": "rain"}\n'


def settings(price: Decimal = PRICE, **files: Any) -> ServiceConfig:
    config = FilesConfig(price_per_gb_month=price, **files)
    return make_file([make_zone()]).model_copy(update={"files": config})


@pytest.fixture(autouse=True)
def idle_background(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the test charges."""

    async def run(*_: object) -> None: ...

    if "background" not in request.node.name:
        monkeypatch.setattr(StorageBilling, "run", run)


@pytest.fixture
def clock() -> Clock:
    made = Clock()
    # Noon of a day (UTC).
    made.time = EPOCH // DAY * DAY + DAY / 2
    return made


def upload(served: Served, user: str, rows: int) -> str:
    client = served.client(served.users.get(user) or served.key(user))
    file = client.files.create(file=("data.jsonl", ROWS * rows), purpose="fine-tune")
    return str(file.id)


def charge(served: Served) -> None:
    served.run(served.service.storage.charge)


def balance(served: Served, user: str) -> Decimal:
    with served.http(served.users[user]) as http:
        return Decimal(http.get("/v1/ledger").json()["balance"])


def cost(*stored: tuple[int, float], price: Decimal = PRICE) -> Decimal:
    """Return what rows cost that were stored for so many seconds, rounded down to a step."""
    byte_seconds = sum(len(ROWS) * rows * int(seconds) for rows, seconds in stored)
    return int(price / STEP) * byte_seconds // GB_MONTH * STEP


def charges(served: Served) -> list[Any]:
    log = served.service.log.read_zone("default")
    return [orjson.loads(one.body) for one in log if one.type == EventType.STORAGE_USED]


@pytest.mark.parametrize("served_database", ["sqlite", "postgresql"], indirect=True)
def test_each_day_is_charged_once_by_bytes_and_seconds_until_a_file_is_deleted(
    tmp_path: Path, clock: Clock, served_database: str | None
) -> None:
    with serving(tmp_path, settings(), clock, database=served_database) as served:
        charge(served)
        kept, gone = upload(served, "ada", 40), upload(served, "ada", 30)
        upload(served, "bob", 50)
        clock.time += DAY / 2 - 1
        charge(served)
        assert charges(served) == []
        clock.time += 1
        for _ in range(2):
            charge(served)
            assert balance(served, "ada") == cost((70, DAY / 2))
            assert balance(served, "bob") == cost((50, DAY / 2))
        clock.time += DAY / 4
        served.client(served.users["ada"]).files.delete(gone)
        clock.time += DAY
        charge(served)
        # The day that is not over is not charged yet, and what is less than a step is not lost.
        assert balance(served, "ada") == cost((40, 1.5 * DAY), (30, 0.75 * DAY))
        assert len(charges(served)) == 4
        clock.time += 10 * DAY
        charge(served)
        assert balance(served, "ada") == cost((40, 11.5 * DAY), (30, 0.75 * DAY))
        served.client(served.users["ada"]).files.delete(kept)
        clock.time += DAY
        charge(served)
        clock.time += DAY
        charge(served)
        assert balance(served, "ada") == cost((40, 11.75 * DAY), (30, 0.75 * DAY))
        with served.http(served.operator) as http:
            accounts = http.get("/v1/ledger/balances").json()["accounts"]
        assert sum(map(Decimal, accounts.values())) == 0


@pytest.fixture
def served_database(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    found: str = request.getfixturevalue("postgres_database")
    return found


def test_nothing_is_charged_twice_or_lost_where_the_service_ends_amid_its_charges(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_billing, "_CHARGES", 1)
    users = [f"user{n}" for n in range(4)]
    charge_storage = Zone.charge_storage
    ended: list[int] = []

    def end_after(count: int, served: Served) -> None:
        """Charge so many users, and end as the service may."""
        num_charged = 0

        def counted(zone: Any, charges: Any) -> None:
            nonlocal num_charged
            if num_charged == count:
                raise EndedError
            num_charged += 1
            charge_storage(zone, charges)

        with monkeypatch.context() as patch:
            patch.setattr(Zone, "charge_storage", counted)
            with pytest.raises(EndedError):
                charge(served)
        ended.append(len(charges(served)))

    keys: dict[str, str] = {}
    with serving(tmp_path, settings(), clock) as served:
        charge(served)
        for number, user in enumerate(users):
            upload(served, user, 10 + number)
        keys = served.users
        clock.time += DAY / 2
        end_after(1, served)
    # The price changes too, amid a day, and the service ends amid the charges until then.
    other = 3 * PRICE
    clock.time += DAY / 4
    with serving(tmp_path, settings(other), clock) as served:
        served.users.update(keys)
        # The rest of the first day, and two users of the second.
        end_after(3 + 2, served)
        clock.time += DAY / 8
    with serving(tmp_path, settings(other), clock) as served:
        served.users.update(keys)
        charge(served)
        clock.time += DAY
        charge(served)
        after = DAY - DAY * 3 / 8
        for number, user in enumerate(users):
            before = [(10 + number, DAY / 2 + DAY * 3 / 8)]
            exact = sum(
                int(price / STEP) * len(ROWS) * rows * int(seconds)
                for price, spans in ((PRICE, before), (other, [(10 + number, after)]))
                for rows, seconds in spans
            )
            assert balance(served, user) == exact // GB_MONTH * STEP
    assert ended == [1, 4 + 2]


class EndedError(Exception):
    """The service ends here."""


def test_a_price_holds_from_the_start_with_it_and_what_was_free_stays_free(
    tmp_path: Path, clock: Clock
) -> None:
    with serving(tmp_path, settings(Decimal(0)), clock) as served:
        upload(served, "ada", 40)
        clock.time += 3 * DAY
        charge(served)
        keys = served.users
    with serving(tmp_path, settings(), clock) as served:
        served.users.update(keys)
        charge(served)
        clock.time += DAY / 2
        charge(served)
        assert balance(served, "ada") == cost((40, DAY / 2))
        clock.time += DAY / 4
    with serving(tmp_path, settings(Decimal(0)), clock) as served:
        served.users.update(keys)
        charge(served)
        clock.time += 5 * DAY
        charge(served)
        # Until the start without a price.
        assert balance(served, "ada") == cost((40, DAY * 3 / 4))


def test_of_a_long_time_without_charges_the_last_days_alone_are_charged(
    tmp_path: Path, clock: Clock
) -> None:
    with serving(tmp_path, settings(), clock) as served:
        charge(served)
        upload(served, "ada", 40)
        keys = served.users
    # The clock was years behind at the first start.
    clock.time += 1500 * DAY
    with serving(tmp_path, settings(), clock) as served:
        served.users.update(keys)
        charge(served)
        (first, *_, last) = charges(served)
        midnight = clock.time // DAY * DAY
        assert (first["since"], last["until"]) == (midnight - 32 * DAY, midnight)
        assert balance(served, "ada") == sum(Decimal(one["amount"]) for one in charges(served))


def test_days_are_charged_in_the_background(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_BILLING_SECONDS", 0.05)
    with serving(tmp_path, settings(), clock) as served:
        served.wait_for(lambda: Charged(served.service.storage._charged.price == PRICE), "charged")
        upload(served, "ada", 40)
        clock.time += DAY / 2
        served.wait_for(lambda: Charged(bool(charges(served))), "charged")
        assert balance(served, "ada") == cost((40, DAY / 2))


class Charged:
    def __init__(self, is_charged: bool) -> None:
        self.status = "charged" if is_charged else "free"


def test_a_file_is_charged_until_its_expiry_whenever_it_is_deleted(
    tmp_path: Path, clock: Clock
) -> None:
    with serving(tmp_path, settings(data_days=0.75), clock) as served:
        charge(served)
        upload(served, "ada", 40)
        clock.time += 3 * DAY
        charge(served)
        assert balance(served, "ada") == cost((40, 0.75 * DAY))


def test_uploads_are_refused_while_nothing_is_left_of_a_budget_and_no_file_is_lost(
    tmp_path: Path, clock: Clock
) -> None:
    with serving(tmp_path, settings(), clock) as served:
        charge(served)
        served.key("ada", budget=Budget(cost((40, DAY)), 30.0 * DAY))
        client = served.client(served.users["ada"])
        file = upload(served, "ada", 40)
        clock.time += DAY
        charge(served)
        upload(served, "ada", 1)
        with served.http(served.users["ada"]) as http:
            alerts = http.get("/v1/ledger").json()["budget_alerts"]
        assert [one["percent"] for one in alerts] == []
        clock.time += DAY
        charge(served)
        with pytest.raises(openai.RateLimitError, match="delete files, or ask for a") as refused:
            upload(served, "ada", 1)
        assert refused.value.code == "insufficient_quota"
        assert client.files.retrieve(file).id == file
        with served.http(served.users["ada"]) as http:
            statement = http.get("/v1/ledger").json()
        assert Decimal(statement["budget_remaining"]) == 0
        assert {one["percent"] for one in statement["budget_alerts"]} == {80, 100}
        # Charges go on: what is stored costs, until it is deleted.
        before = balance(served, "ada")
        clock.time += DAY
        charge(served)
        assert balance(served, "ada") > before
        # Without a price the budget is that of jobs alone.
        keys = served.users
    with serving(tmp_path, settings(Decimal(0)), clock) as served:
        served.users.update(keys)
        upload(served, "ada", 1)


def test_users_see_what_is_stored_what_it_costs_and_what_for(tmp_path: Path, clock: Clock) -> None:
    with serving(tmp_path, settings(results_days=30), clock) as served:
        charge(served)
        upload(served, "ada", 20_000)
        clock.time += DAY / 2
        charge(served)
        with served.http(served.users["ada"]) as http:
            storage = http.get("/v1/ledger").json()["storage"]
            (entry,) = http.get("/v1/ledger/entries").json()["data"]
        assert storage == {
            "files": 1,
            "bytes": 20_000 * len(ROWS),
            "price_per_gb_month": "1234567.8901",
            "data_days": None,
            "results_days": 30.0,
        }
        assert entry["job"] is None
        size = f"{20_000 * len(ROWS) / 1e9:.3g}"
        assert entry["memo"] == f"storage of {size} GB on 2027-01-15"
        assert Decimal(entry["amount"]) == cost((20_000, DAY / 2))
        money = PageVisitor(served, served.users["ada"]).get("/page/money").text
        assert entry["memo"] in money
        assert "Stored files cost" in money
        assert "credits per GB and 30 days" in money


def test_costs_of_all_months_sum_to_what_is_owed_before_and_after_an_erasure(
    tmp_path: Path, clock: Clock
) -> None:
    with serving(tmp_path, settings(), clock) as served:
        charge(served)
        for user in ("ada", "bob"):
            upload(served, user, 4000)
        for _ in range(20):
            clock.time += DAY
            charge(served)
        with served.http(served.operator) as http:
            assert http.delete("/v1/users/ada/data").json()["files"] == 1
        # The day of the erasure is charged like any other.
        clock.time += DAY
        charge(served)
        with served.http(served.operator) as http:
            owed = {
                name.removeprefix("user:"): Decimal(amount)
                for name, amount in http.get("/v1/ledger/balances").json()["accounts"].items()
                if name.startswith("user:")
            }
            billed: Counter[str] = Counter()
            for month in ("2027-01", "2027-02"):
                text = http.get("/v1/ledger/focus", params={"month": month}).text
                for row in csv.DictReader(io.StringIO(text)):
                    assert (row["ServiceName"], row["ServiceCategory"]) == (
                        "File storage",
                        "Storage",
                    )
                    assert row["ConsumedUnit"] == "GB-Months"
                    billed[row["x_User"]] += Decimal(row["BilledCost"])  # type: ignore[assignment]
        assert owed == dict(billed)
        assert owed["ada"] == cost((4000, 20 * DAY)) < owed["bob"]
