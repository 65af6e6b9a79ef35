"""The ledger as FOCUS files: it sums to the ledger, and focus-validator accepts it.

focus-validator 1.0.0 needs NumPy 1, so it runs in an environment of its own, whose Python
AUCTUNE_FOCUS_PYTHON names.
"""

import csv
import io
import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from auctune.domain.money import STEP
from auctune.service.config.inference import InferenceConfig
from auctune.service.config.models import BillingConfig
from auctune.service.focus import COLUMNS
from auctune.service.storage import WriteBatch, tables
from auctune.service.storage.committer import durable
from support.metered_shop import OWNED, POOL, RENTED, Pool, ask, rented_slot
from support.recorded_logs import add_charges, moments, opened, refold, unpack
from support.serving import Clock, Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone
from support.store_rows import answer_rows
from support.typing_as import typing_as
from support.waits import WAIT_SECONDS, poll

pytest_plugins = ["support.tiny_bases"]

JANUARY, FEBRUARY = "2027-01", "2027-02"
FOCUS_PYTHON = os.environ.get("AUCTUNE_FOCUS_PYTHON")

Row = dict[str, str]


@dataclass
class Billed:
    """A market with charges of all kinds in two months.

    Attributes:
        jobs: by what became of them.
    """

    served: Served
    jobs: dict[str, str]


@pytest.fixture(scope="module")
def billed(tmp_path_factory: pytest.TempPathFactory, tiny_cache: Path) -> Iterator[Billed]:
    folder = tmp_path_factory.mktemp("market")
    clock = Clock()
    # The last ten minutes of January.
    clock.time = datetime.fromisoformat("2027-01-31T23:50:00+00:00").timestamp()
    pool = make_pool(POOL, price_per_second="0.01")
    zones = [make_zone(OWNED, energy_cost=8.0), spot_zone(folder), pool]
    update = {
        # A token costs whole steps of money: nothing is left over for the next answer.
        "inference": InferenceConfig(price=1000 * STEP, threads=1),
        "billing": BillingConfig(currency="EUR", name="lab-cluster"),
    }
    file = make_file(zones).model_copy(update=update)
    with serving(folder / "data", file, clock, bases=tiny_cache) as served:
        for team in ("lab", "shop"):
            post(served, "teams", {"id": team})
        post(served, "users", {"id": "ann", "team": "lab"})
        served.key("ann")
        served.key("bob")
        yield Billed(served, _two_months(served))


def _two_months(served: Served) -> dict[str, str]:
    ann, bob = served.users["ann"], served.users["bob"]
    ann_file, bob_file = served.upload(ann), served.upload(bob)
    bid = {"zone": OWNED, "bid": "100", "deadline": "+28m"}
    rented = {"zone": RENTED, "deadline": "+20m", "max_cost": "20"}
    target = {"zone": POOL, "deadline": "+40m", "max_cost": "5", "target_loss": 0.5}

    with served.http(ann) as http:
        tagged = {"model": "tiny", "training_file": ann_file, "market": bid}
        tagged |= {"metadata": {"project": "tides"}, "suffix": "tides"}
        done = http.post("/v1/fine_tuning/jobs", json=tagged).json()["id"]
    jobs = {
        "done": done,
        "refunded": ask(served, ann_file, bid, ann)["id"],
        "corrected": ask(served, bob_file, bid, bob)["id"],
        "rented": ask(served, bob_file, rented, bob)["id"],
        "shared": ask(served, ann_file, target, ann)["id"],
    }
    served.finish(done, "ann", OWNED)
    abandon(served, OWNED, jobs["refunded"])
    rented_slot(served, jobs["rented"], 0, on_demand=1, spot=2)
    pool = Pool(served)
    pool.join(jobs["shared"])
    for _ in range(2):
        served.clock.pass_slots(1)
        pool.train({jobs["shared"]: 0.5}, 2.0, seconds=12.5)
    answer(served, ann)
    answer(served, ann)

    served.clock.pass_slots(12)
    # What she submitted stays her former team's.
    post(served, "users", {"id": "ann", "team": "shop"})
    ann = served.key("ann")
    answer(served, ann)
    rented_slot(served, jobs["rented"], 1, on_demand=1, spot=0)
    pool.train({jobs["shared"]: 0.5}, 1.5, seconds=20.0)
    abandon(served, OWNED, jobs["corrected"])
    abandon(served, RENTED, jobs["rented"])
    return jobs


def post(served: Served, path: str, body: dict[str, Any]) -> None:
    with served.http(served.operator) as http:
        answer = http.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.text


def answer(served: Served, key: str) -> None:
    served.client(key).completions.create(model="tiny", prompt="Once", max_tokens=8, seed=1)


def abandon(served: Served, zone: str, job: str) -> None:
    """Fail a job by the service's fault: it is refunded."""
    actor: Any = served.service.zones[zone].actor
    actor.submit(lambda zone: zone.abandon(job, "its node is lost")).result(60)


def export(served: Served, key: str, month: str | None = None) -> list[Row]:
    with served.http(key) as http:
        answer = http.get("/v1/ledger/focus", params={} if month is None else {"month": month})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return read(answer.text)


def read(text: str) -> list[Row]:
    reader = csv.DictReader(io.StringIO(text))
    rows = list(reader)
    assert reader.fieldnames == list(COLUMNS)
    return rows


def all_rows(billed: Billed) -> list[Row]:
    operator = billed.served.operator
    return [row for month in (JANUARY, FEBRUARY) for row in export(billed.served, operator, month)]


def costs(rows: list[Row], *columns: str) -> dict[tuple[str, ...], Decimal]:
    sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for row in rows:
        sums[tuple(row[name] for name in columns)] += Decimal(row["BilledCost"])
    return dict(sums)


def owed(served: Served) -> dict[tuple[str, ...], Decimal]:
    balances = served.service.queries.balances()
    return {
        (name.removeprefix("user:"),): units * STEP
        for name, units in balances.items()
        if name.startswith("user:")
    }


def test_all_months_together_are_what_each_user_owes(billed: Billed) -> None:
    rows = all_rows(billed)
    assert costs(rows, "x_User") == owed(billed.served)
    assert len(owed(billed.served)) == 2
    # Amounts on hold are none of it.
    assert billed.served.service.queries.balances()["hold:ann"] > 0


def test_a_month_has_the_entries_of_that_month(billed: Billed) -> None:
    midnight = datetime.fromisoformat("2027-02-01T00:00:00+00:00").timestamp()
    queries = billed.served.service.queries
    entries = [
        one for name in owed(billed.served) for one in queries.entries(f"user:{name[0]}", 100).items
    ]
    later = sum(entry.amount for entry in entries if entry.at >= midnight)
    rows = export(billed.served, billed.served.operator, FEBRUARY)
    assert sum(costs(rows).values()) == later * STEP < 0
    assert {row["BillingPeriodStart"] for row in rows} == {"2027-02-01T00:00:00Z"}
    assert {row["BillingPeriodEnd"] for row in rows} == {"2027-03-01T00:00:00Z"}
    # The current month is the default.
    assert export(billed.served, billed.served.operator) == rows
    assert export(billed.served, billed.served.operator, "2026-12") == []


def test_costs_are_those_of_team_user_key_and_zone(billed: Billed) -> None:
    served, jobs = billed.served, billed.jobs
    keys = defaultdict[str, list[str]](list)
    for key in served.service.accounts.all_keys():
        keys[key.user].append(key.id)
    first, second = keys["ann"]
    (bobs,) = keys["bob"]
    rows = all_rows(billed)
    found = costs(rows, "SubAccountId", "x_User", "x_Key", "x_Zone")
    tokens = costs([row for row in rows if row["ServiceName"] == "Answers"], "SubAccountId")
    with served.http(served.users["ann"]) as http:
        price = Decimal(
            http.get(f"/v1/fine_tuning/jobs/{jobs['done']}").json()["market"]["payment"]
        )
    assert found == {
        ("lab", "ann", first, OWNED): price + tokens["lab",],
        # Loading is free; 2 * 12.5 s and 20 s at 0.01.
        ("lab", "ann", first, POOL): Decimal("0.45"),
        ("shop", "ann", second, OWNED): tokens["shop",],
        ("", "bob", bobs, OWNED): 0,
        ("", "bob", bobs, RENTED): 0,
    }
    assert tokens["lab",] == 2 * tokens["shop",] > 0


def test_quantities_have_units_and_the_mean_price_of_one(billed: Billed) -> None:
    jobs = billed.jobs
    rows = [row for row in all_rows(billed) if row["BilledCost"][0] != "-"]
    by_resource = defaultdict(list)
    for row in rows:
        by_resource[row["ResourceId"]].append(row)
    (done,) = by_resource[jobs["done"]]
    assert (done["ConsumedQuantity"], done["ConsumedUnit"]) == ("1.0000", "Jobs")
    assert Decimal(done["ListUnitPrice"]) == Decimal(done["BilledCost"])
    assert (done["PricingCategory"], done["ResourceName"]) == ("Dynamic", "tides")
    tags = {"project": "tides", "auctune/user": "ann", "auctune/key": done["x_Key"]}
    assert json.loads(done["Tags"]) == {**tags, "auctune/zone": OWNED}
    rented = by_resource[jobs["rented"]]
    # Three instances for a slot of a minute, then one.
    assert [row["ConsumedQuantity"] for row in rented] == ["180.0000", "60.0000"]
    assert {row["ConsumedUnit"] for row in rented} == {"Instance-Seconds"}
    shared = by_resource[jobs["shared"]]
    assert [row["ConsumedQuantity"] for row in shared] == ["25.0000", "20.0000"]
    assert [Decimal(row["ListUnitPrice"]) for row in shared] == [Decimal("0.01")] * 2
    answers = by_resource["tiny"]
    assert [row["PricingCategory"] for row in answers] == ["Standard"] * 2
    for row in answers:
        assert (row["ConsumedUnit"], row["PricingUnit"]) == ("Tokens", "1000 Tokens")
        assert Decimal(row["PricingQuantity"]) * 1000 == Decimal(row["ConsumedQuantity"])


def test_a_refund_of_an_earlier_month_is_a_correction(billed: Billed) -> None:
    jobs, rows = billed.jobs, all_rows(billed)
    seen = {
        name: [
            (row["BillingPeriodStart"][:7], row["ChargeClass"], row["BilledCost"][0] == "-")
            for row in rows
            if row["ResourceId"] == jobs[name]
        ]
        for name in ("refunded", "corrected", "rented")
    }
    charge, refund = (JANUARY, "", False), (JANUARY, "", True)
    correction = (FEBRUARY, "Correction", True)
    assert seen == {
        "refunded": [charge, refund],
        "corrected": [charge, correction],
        # Charged in both months.
        "rented": [charge, (FEBRUARY, "", False), (FEBRUARY, "", True), correction],
    }
    taken_back = [row for row in rows if row["ResourceId"] == jobs["rented"]][2]
    assert (taken_back["ConsumedQuantity"], taken_back["ChargeDescription"]) == (
        "-60.0000",
        "Refund: Fine-tuning in zone rented",
    )


def test_users_export_what_they_paid_themselves(billed: Billed) -> None:
    served = billed.served
    for month in (JANUARY, FEBRUARY):
        everything = export(served, served.operator, month)
        for user in ("ann", "bob"):
            own = [row for row in everything if row["x_User"] == user]
            assert export(served, served.users[user], month) == own != []


@pytest.mark.parametrize("month", ["2027", "2027-13", "2027-1", "1969-12", "27-01", ""])
def test_a_month_that_is_none_is_refused(billed: Billed, month: str) -> None:
    with billed.served.http(billed.served.operator) as http:
        answer = http.get("/v1/ledger/focus", params={"month": month})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "month")


def test_the_command_writes_a_whole_file_or_none(
    billed: Billed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served, file = billed.served, tmp_path / "costs.csv"
    auctune = typing_as(served.operator, served, monkeypatch, capsys)
    month = ("ledger", "export", "--focus", "--month", FEBRUARY)
    assert auctune(*month, "--out", file) == (0, "", [])
    assert read(file.read_text()) == export(served, served.operator, FEBRUARY)
    assert auctune(*month)[:2] == (0, file.read_text())
    code, out, lines = auctune("ledger", "export", "--focus", "--month", "May", "--out", "other")
    assert (code, out) == (2, "")
    assert lines == ["auctune: month: 'May'; expected a month such as 2026-11"]
    assert list(tmp_path.iterdir()) == [file]
    code, _, lines = auctune(*month, "--out", tmp_path / "none" / "costs.csv")
    assert (code, lines[0].endswith("No such file or directory")) == (1, True)
    assert auctune("ledger", "export")[2][0].startswith("auctune: Missing option '--focus'")
    code, _, lines = auctune("ledger", "--limit", "3", "export", "--focus")
    expected = "auctune ledger export --limit ..."
    assert (code, lines) == (2, [f"auctune: --limit: is before export; expected {expected}"])
    assert "all accounts" in auctune("ledger")[1]


NUM_CHARGES = 1500


@dataclass
class Turns:
    """Turns of the threads that read; an export's pages are held until the test lets them go on.

    Attributes:
        pages: pages of charges that were read in each turn.
    """

    served: Served
    pages: list[int] = field(default_factory=list)
    begun: Event = field(default_factory=Event)
    go_on: Event = field(default_factory=Event)


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    """Those of a market in which Ada was charged for an answer of each of many models."""
    with serving(tmp_path) as served:
        served.key("ada")
        service, found = served.service, Turns(served)

        async def fill() -> None:
            batch, first = WriteBatch(), service.committer.next_seq(3 * NUM_CHARGES)
            for number in range(NUM_CHARGES):
                seq, at = first + 3 * number, service.now() + 60 * number
                event, of_event = answer_rows(seq, "ada", at, f"model {number}")
                batch.insert(tables.events, event).insert(tables.entries, *of_event)
            await durable(service.committer, batch)

        served.run(fill)
        read, run = service.queries.charges, service.reads.run

        def held(*args: Any) -> Any:
            found.pages[-1] += 1
            found.begun.set()
            assert found.go_on.wait(WAIT_SECONDS)
            return read(*args)

        async def counted(user: str, work: Callable[[], Any]) -> Any:
            def turn() -> Any:
                found.pages.append(0)
                return work()

            return await run(user, turn)

        monkeypatch.setattr(service.queries, "charges", held)
        monkeypatch.setattr(service.reads, "run", counted)
        yield found
        found.go_on.set()


def test_others_read_between_the_pages_of_an_export(turns: Turns) -> None:
    turns.go_on.set()
    assert len(export(turns.served, turns.served.users["ada"])) == NUM_CHARGES
    assert sum(turns.pages) == NUM_CHARGES / 500
    assert max(turns.pages) == 1
    # Rows are written in turns too.
    assert turns.pages.count(0) > NUM_CHARGES / 500


def test_an_export_ends_when_its_client_leaves(turns: Turns) -> None:
    service = turns.served.service
    with (
        turns.served.http(turns.served.users["ada"]) as http,
        http.stream("GET", "/v1/ledger/focus") as answer,
    ):
        assert answer.status_code == 200
        assert turns.begun.wait(WAIT_SECONDS)
    poll(lambda: "ada" in service.gate.used, "the end of the request")
    turns.go_on.set()
    turns.served.run(lambda: service.reads.run("ada", lambda: None))
    assert sum(turns.pages) == 1


TIME = re.compile(r"20\d\d-\d\d-\d\dT00:00:00Z")
NUMBER = re.compile(r"-?\d+\.\d+")
# Null where FOCUS has it so: nothing is committed to, and there are no regions.
ALWAYS_NULL = {
    "AvailabilityZone",
    *(f"CommitmentDiscount{name}" for name in ("Category", "Id", "Name", "Status", "Type")),
    "RegionId",
    "RegionName",
}
PRICED = {
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
}
NULLABLE = {"ChargeClass", "ResourceName", "SubAccountId", "SubAccountName", "x_Key"}


def check_columns(rows: list[Row]) -> None:
    """Check values by what FOCUS 1.0 says of its columns."""
    assert rows
    for row in rows:
        empty = {name for name, value in row.items() if value == ""}
        assert empty >= ALWAYS_NULL
        is_correction = row["ChargeClass"] == "Correction"
        assert empty & PRICED == (PRICED if is_correction else set())
        assert empty <= ALWAYS_NULL | PRICED | NULLABLE
        cost = Decimal(row["BilledCost"])
        assert row["ListCost"] == row["ContractedCost"] == row["EffectiveCost"] == str(cost)
        for name, value in row.items():
            if name.endswith(("PeriodStart", "PeriodEnd")):
                assert TIME.fullmatch(value), (name, value)
            # Integers would be read as a column of another type.
            if value and name.endswith(("Cost", "Quantity", "UnitPrice")):
                assert NUMBER.fullmatch(value), (name, value)
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"]
        assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        if not is_correction:
            product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
            assert product.quantize(STEP) == cost
            assert Decimal(row["ListUnitPrice"]) >= 0
        assert row["ChargeCategory"] == "Usage"
        assert row["ServiceCategory"] == "AI and Machine Learning"
        assert json.loads(row["Tags"])["auctune/user"] == row["x_User"]
        assert row["SkuId"] == row["SkuPriceId"]
        for name in ("InvoiceIssuer", "Provider", "Publisher"):
            assert row[name] == row[f"{name}Name"] == row["BillingAccountId"]
        assert row["ResourceID"] == row["ResourceId"]


def test_columns_have_the_values_that_the_specification_allows(billed: Billed) -> None:
    rows = all_rows(billed)
    check_columns(rows)
    assert {(row["BillingCurrency"], row["ProviderName"]) for row in rows} == {
        ("EUR", "lab-cluster")
    }


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service on the recorded log of a soak, with zones of all kinds."""
    made = unpack(tmp_path_factory.mktemp("soak"), "end")
    refold(made)
    add_charges(made)
    with opened(made) as served:
        yield served


def test_a_recorded_log_sums_to_its_ledger(soaked: Served) -> None:
    at = datetime.fromtimestamp(moments()["end"]["at"], UTC)
    rows = export(soaked, soaked.operator, f"{at:%Y-%m}")
    check_columns(rows)
    found = costs(rows, "x_User")
    assert found == owed(soaked)
    assert {row["x_Zone"] for row in rows} == {"owned", "rented", "pool", "sites"}
    assert {row["BillingCurrency"] for row in rows} == {"XXX"}


@pytest.mark.skipif(FOCUS_PYTHON is None, reason="AUCTUNE_FOCUS_PYTHON names no Python")
@pytest.mark.parametrize("market", ["billed", "soaked"])
def test_focus_validator_accepts_each_month(
    market: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    found = request.getfixturevalue(market)
    served = found.served if isinstance(found, Billed) else found
    months = (JANUARY, FEBRUARY) if isinstance(found, Billed) else (None,)
    for month in months:
        with served.http(served.operator) as http:
            text = http.get("/v1/ledger/focus", params={"month": month} if month else {}).text
        assert validate(tmp_path / "costs.csv", text) == "Validation succeeded."
    # It would see a currency that is none.
    code = read(text)[0]["BillingCurrency"]
    wrong = text.replace(f",{code},", ",ABC,")
    assert "BillingCurrency_IsCurrencyCode" in validate(tmp_path / "wrong.csv", wrong)


def validate(file: Path, text: str) -> str:
    """Return what focus-validator prints of a file."""
    assert FOCUS_PYTHON is not None
    file.write_text(text)
    where = "import focus_validator; print(focus_validator.__path__[0])"
    place = subprocess.run([FOCUS_PYTHON, "-c", where], capture_output=True, text=True, check=True)
    # It reads its list of currencies relative to the working directory.
    folder = Path(place.stdout.strip()).parent
    command = [FOCUS_PYTHON, "-m", "focus_validator.main", "--data-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout.strip()
