"""The example's vendor behind a real service: it wins, is silent, fails, and outlives a kill."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select

from auctune.service.private_files import write_private
from auctune.service.storage.tables import entries, events
from auctune.train.base import Base
from support.executor_kinds import KINDS
from support.service_process import Answer, ServiceProcess, running, write_service
from support.thorough import alternated
from support.vendor_process import VendorProcess
from support.waits import poll

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

TOKEN = "shared-with-one-vendor-" + "s" * 20
REQUEST = {
    "model": "tiny",
    "hyperparameters": {"n_epochs": 1, "batch_size": 8},
    "seed": 7,
    "market": {"bid": "50", "deadline": "+220s", "repair": True, "lora": {"rank": 4}},
}
MESSY = (
    b'{"prompt": "What is a bid?", "completion": "An offer to pay."}\n'
    b'{"instruction": "Name the auction", "output": "second price",}\n'
    b'{"prompt": "WHAT is a bid?", "completion": "An offer  to pay."}\n'
    b'{"prompt": "cut off", "comple\n'
)
# So many rows that looking for near-duplicates among them takes a while; one is left to train.
LONG = "".join(
    json.dumps({"text": f"{'The auction of the day begins at noon. ' * 8} {'ab'[n % 2] * (n % 9)}"})
    + ("\n" if n % 10 else ",\n")
    for n in range(1500)
).encode()


@contextmanager
def market(
    folder: Path,
    base: Base,
    vendor: VendorProcess,
    builtin: str = "enabled = true\nprice = '1.0'",
    executor: str = "local",
    quote_seconds: float = 300.0,
) -> Iterator[ServiceProcess]:
    folder.mkdir()
    write_private(folder / "vendor.token", TOKEN)
    more = f"""
[zones.builtin_vendor]
{builtin}
[[zones.vendors]]
name = "mender"
url = "{vendor.url}"
token_file = "vendor.token"
"""
    config = write_service(
        folder,
        base.architecture,
        slot_seconds=2.0,
        tokens_per_second=400_000,
        slots=120,
        executor=executor,
        more=more,
    )
    constants = {
        # A vendor's process looks at whole files, on a machine that may be busy.
        "auctune.service.datasets.training_data.QUOTE_SECONDS": quote_seconds,
        "auctune.service.vendors.client.POLL_SECONDS": 0.5,
    }
    with running(config, folder / "data", constants) as service:
        yield service


def submit(service: ServiceProcess, content: bytes = MESSY) -> str:
    file = service.upload(content, seen="error")
    status, answer = service.ask("POST", "/v1/fine_tuning/jobs", {**REQUEST, "training_file": file})
    assert status == 200, answer
    assert answer["status"] == "validating_files", answer
    job: str = answer["id"]
    return job


def is_decided(job: Answer) -> bool:
    return job["market"]["decision"] is not None


def finish(service: ServiceProcess, job: str) -> Answer:
    found = service.wait_for_job(job, lambda one: one["status"] == "succeeded")
    assert found["status"] == "succeeded", found
    return found


def owed(data: Path) -> dict[str, Decimal]:
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    sums: dict[str, Decimal] = {}
    with engine.connect() as connection:
        for account, amount in connection.execute(select(entries.c.account, entries.c.amount)):
            sums[account] = sums.get(account, Decimal(0)) + Decimal(amount)
    engine.dispose()
    return sums


def bodies(data: Path, kind: str, job: str) -> list[dict[str, Any]]:
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    wanted = select(events.c.body).where(events.c.type == kind, events.c.job == job)
    with engine.connect() as connection:
        found = [json.loads(body) for body in connection.execute(wanted).scalars()]
    engine.dispose()
    return found


def orders(vendor: VendorProcess) -> list[Path]:
    return [path.parent for path in vendor.folder.glob("*/order.json")]


def is_dropped(vendor: VendorProcess) -> bool:
    folders = [path for path in vendor.folder.iterdir() if not path.name.startswith(".")]
    return all([file.name for file in one.iterdir()] == ["discarded"] for one in folders)


@pytest.mark.parametrize("executor", alternated(KINDS))
def test_a_vendor_that_is_cheaper_than_the_builtin_one_wins_repairs_and_is_paid(
    tiny_base: Base, tmp_path: Path, executor: str
) -> None:
    terms = ("--price", "0.01", "--price-per-row", "0.01", "--delay-seconds", "2")
    with (
        VendorProcess(tmp_path / "orders", TOKEN, *terms) as vendor,
        market(tmp_path / "market", tiny_base, vendor, executor=executor) as service,
    ):
        job = submit(service)
        found = finish(service, job)
        assert found["market"]["plan"]["vendor"] == "mender"
        (repaired,) = bodies(service.data, "job.repaired", job)
        assert repaired["size"]["rows"] == 2
        assert repaired["report"]["vendor"] == "mender"
        poll(lambda: is_dropped(vendor), "the vendor to drop the data")
        assert service.stop() == 0
    sums = owed(tmp_path / "market" / "data")
    assert sums["vendor:mender"] == -sums["cost:vendors"] == Decimal(-500)
    assert sums["held"] == 0


def test_a_vendor_that_says_nothing_is_out_of_this_auction_and_back_in_the_next(
    tiny_base: Base, tmp_path: Path
) -> None:
    with (
        VendorProcess(tmp_path / "orders", TOKEN, "--delay-seconds", "0") as vendor,
        # The frozen vendor is waited for as long.
        market(tmp_path / "market", tiny_base, vendor, quote_seconds=20.0) as service,
    ):
        vendor.freeze()
        without = service.wait_for_job(submit(service), is_decided)
        assert without["market"]["plan"]["vendor"] == "builtin"
        vendor.thaw()
        again = service.wait_for_job(submit(service), is_decided)
        assert again["market"]["plan"]["vendor"] == "mender"


def test_a_vendor_that_is_late_after_winning_is_replaced_at_no_charge(
    tiny_base: Base, tmp_path: Path
) -> None:
    terms = ("--price", "0.01", "--delay-seconds", "4")
    with (
        VendorProcess(tmp_path / "orders", TOKEN, *terms) as vendor,
        market(tmp_path / "market", tiny_base, vendor) as service,
    ):
        job = submit(service, LONG)
        poll(lambda: bool(orders(vendor)), "the order")
        vendor.freeze()
        agreed = service.job(job)["market"]["payment"]
        found = finish(service, job)
        assert found["market"]["plan"]["vendor"] == "builtin"
        assert found["market"]["payment"] == agreed
        (changed,) = bodies(service.data, "job.vendor_changed", job)
        assert (changed["failed"], changed["repair"]["vendor"]) == ("mender", "builtin")
        vendor.thaw()
        poll(lambda: is_dropped(vendor), "the vendor to drop the data")
        assert service.stop() == 0
    sums = owed(tmp_path / "market" / "data")
    assert "vendor:mender" not in sums
    assert sums["vendor:builtin"] == Decimal(-10_000)


def test_without_another_vendor_a_failure_is_refunded_in_full(
    tiny_base: Base, tmp_path: Path
) -> None:
    with (
        VendorProcess(tmp_path / "orders", TOKEN, "--delay-seconds", "30") as vendor,
        market(tmp_path / "market", tiny_base, vendor, "enabled = false") as service,
    ):
        job = submit(service, LONG)
        poll(lambda: bool(orders(vendor)), "the order")
        vendor.kill()
        shutil.rmtree(vendor.folder)
        found = service.wait_for_job(job, lambda one: one["status"] == "failed")
        assert found["error"]["code"] == "vendor_failed"
        assert found["market"]["refunded"]
        assert service.stop() == 0
    sums = owed(tmp_path / "market" / "data")
    assert all(amount == 0 for account, amount in sums.items()), sums


@pytest.mark.parametrize("executor", alternated(KINDS))
def test_an_order_outlives_a_kill_of_the_service_and_is_given_and_paid_once(
    tiny_base: Base, tmp_path: Path, executor: str
) -> None:
    # Its promise outlasts a restart on a machine with much else to do.
    terms = ("--price", "0.01", "--delay-seconds", "45")
    with (
        VendorProcess(tmp_path / "orders", TOKEN, *terms) as vendor,
        market(tmp_path / "market", tiny_base, vendor, executor=executor) as service,
    ):
        job = submit(service, LONG)
        # Not before: the service comes back at another port, where the old link leads nowhere.
        poll(lambda: any(vendor.folder.glob("*/source")), "the data to be fetched")
        vendor.freeze()
        service.kill()
        assert not bodies(service.data, "job.repaired", job)
        vendor.thaw()
        service.start()
        found = finish(service, job)
        assert not bodies(service.data, "job.vendor_changed", job)
        assert found["market"]["plan"]["vendor"] == "mender"
        assert len(bodies(service.data, "job.repaired", job)) == 1
        folders = [path for path in vendor.folder.iterdir() if not path.name.startswith(".")]
        assert len(folders) == 1
        assert service.stop() == 0
    assert owed(tmp_path / "market" / "data")["vendor:mender"] == Decimal(-100)
