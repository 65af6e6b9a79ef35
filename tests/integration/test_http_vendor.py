"""Both sides of the vendor protocol over real sockets, the example's vendor as a real process."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs

from auctune.datasets import read_dataset
from auctune.engine.vendors import RepairVendor
from auctune.service.vendors import (
    DatasetSummary,
    Decline,
    Fault,
    Offer,
    Order,
    VendorClient,
    VendorError,
    VendorToken,
    request_quotes,
    summarize,
)
from support.lying_vendor import answer, lying_vendor, offer
from support.vendor_market import TOKEN, TOKEN_TEXT, VendorMarket, vendor_market
from support.vendor_process import VendorProcess

MESSY = (
    '{"prompt": "What is a bid?", "completion": "An offer to pay."}\n'
    '{"instruction": "Name the auction", "output": "second price",}\n'
    '{"prompt": "WHAT is a bid?", "completion": "An offer  to pay."}\n'
    '{"prompt": "cut off", "comple\n'
)


@pytest.fixture(scope="module")
def market() -> Iterator[VendorMarket]:
    with vendor_market({"mender": TOKEN}) as market:
        yield market


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorProcess]:
    folder = tmp_path_factory.mktemp("vendor") / "orders"
    terms = ("--price", "0.5", "--price-per-row", "0.25", "--delay-seconds", "90")
    with VendorProcess(folder, TOKEN_TEXT, *terms) as process:
        yield process


def write_messy(folder: Path, text: str = MESSY) -> tuple[Path, DatasetSummary]:
    path = folder / "messy.jsonl"
    path.write_text(text)
    return path, summarize(path)


def place_order(
    market: VendorMarket, vendor: VendorClient, path: Path, facts: DatasetSummary, order_id: str
) -> Order:
    """An order by a new offer; the file is shared for the quote only."""
    with market.files.share(path, facts.sha256, "mender"):
        found = market.run(vendor.quote(facts, 10.0))
    assert isinstance(found, Offer)
    order = Order(order_id, found.id, found.price, facts)
    market.run(vendor.order(order))
    return order


@pytest.mark.slow
def test_a_repair_over_http_is_the_repair_in_process(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.files.share(path, facts.sha256, "mender"):
        found = market.run(vendor.quote(facts, 10.0))
        assert isinstance(found, Offer)
        assert (found.vendor, found.price, found.delay_seconds) == ("mender", Decimal("1.5000"), 90)
        order = place_order(market, vendor, path, facts, "order-1")
        report = market.run(vendor.fetch(order, tmp_path / "clean.jsonl", 20.0))
    expected = RepairVendor().repair(path, tmp_path / "expected.jsonl")
    assert (tmp_path / "clean.jsonl").read_bytes() == (tmp_path / "expected.jsonl").read_bytes()
    assert report.to_json() == expected.to_json() | {"vendor": "mender"}


def test_the_same_order_twice_is_the_same_work_and_a_dropped_one_is_not_done_again(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.files.share(path, facts.sha256, "mender"):
        order = place_order(market, vendor, path, facts, "order-2")
        first = market.run(vendor.fetch(order, tmp_path / "first.jsonl", 20.0))
    # The data are not shared now: there is nothing that could be done anew.
    market.run(vendor.order(order))
    assert market.run(vendor.fetch(order, tmp_path / "again.jsonl", 20.0)) == first
    with pytest.raises(VendorError, match="another order has this id"):
        market.run(vendor.order(replace(order, price=Decimal("9"))))
    market.run(vendor.discard(order.id))
    market.run(vendor.discard(order.id))
    with pytest.raises(VendorError, match="dropped"):
        market.run(vendor.order(order))


@pytest.mark.parametrize("change", ["price", "data", "offer"])
def test_an_order_that_was_not_offered_is_not_taken(
    market: VendorMarket, process: VendorProcess, tmp_path: Path, change: str
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.files.share(path, facts.sha256, "mender"):
        found = market.run(vendor.quote(facts, 10.0))
    assert isinstance(found, Offer)
    changed = {
        "price": Order("order-0", found.id, Decimal("0.0001"), facts),
        "data": Order("order-0", found.id, found.price, DatasetSummary(4, 200, "0" * 64)),
        "offer": Order("order-0", "9" + found.id, found.price, facts),
    }
    with pytest.raises(VendorError, match="this was not offered"):
        market.run(vendor.order(changed[change]))


def test_a_vendor_declines_what_cannot_be_repaired(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path, "nothing to be had\n")
    with market.files.share(path, facts.sha256, "mender"):
        found = market.run(market.vendor(process.url).quote(facts, 10.0))
    assert found == Decline("mender", "no usable row would be left")


def test_a_vendor_that_cannot_fetch_the_data_declines(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    _, facts = write_messy(tmp_path)
    found = market.run(market.vendor(process.url).quote(facts, 10.0))
    assert isinstance(found, Decline)


def test_a_request_without_the_token_is_refused(
    market: VendorMarket, process: VendorProcess
) -> None:
    stranger = market.vendor(process.url, token=VendorToken("a" * 40))
    with pytest.raises(VendorError, match="refused: status 401: the token is missing or wrong"):
        market.run(stranger.quote(DatasetSummary(4, 200, "0" * 64), 10.0))
    answers = [
        httpx2.get(f"{process.url}/v3/orders/order-1"),
        httpx2.post(f"{process.url}/v3/quotes", content=b" " * (1 << 20)),
        httpx2.post(
            f"{process.url}/v3/quotes",
            content=b" " * (1 << 20),
            headers={"authorization": TOKEN.authorization},
        ),
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 413]


@pytest.mark.slow
def test_kill_9_loses_no_order_that_is_done_and_none_that_is_being_done(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.files.share(path, facts.sha256, "mender"):
        done = place_order(market, vendor, path, facts, "order-3")
        report = market.run(vendor.fetch(done, tmp_path / "done.jsonl", 20.0))
        found = market.run(vendor.quote(facts, 10.0))
        assert isinstance(found, Offer)
        order = Order("order-4", found.id, found.price, facts)
        market.call(market.gate.shut)
        market.gate.reached.clear()
        market.run(vendor.order(order))
        # It is at work: it asks for the data, which it does not get.
        assert market.gate.reached.wait(10)
        fetching = asyncio.run_coroutine_threadsafe(
            vendor.fetch(order, tmp_path / "clean.jsonl", 30.0), market.loop
        )
        market.gate.reached.clear()
        asking = asyncio.run_coroutine_threadsafe(vendor.quote(facts, 30.0), market.loop)
        assert market.gate.reached.wait(10)
        assert len(list(process.folder.glob(".drafts/*"))) == 1
        process.kill()
        market.gate.reached.clear()
        process.restart()
        # Nobody has told it anything, and it asks for the data again.
        assert market.gate.reached.wait(10)
        assert not fetching.done()
        market.call(market.gate.open)
        assert fetching.result(20) == report
        assert isinstance(asking.result(20), Offer)
        # Nothing is kept of data that were only looked at, before the kill or after it.
        assert list(process.folder.glob(".drafts/*")) == []
    assert market.run(vendor.fetch(done, tmp_path / "again.jsonl", 20.0)) == report
    results = [tmp_path / name for name in ("done.jsonl", "clean.jsonl", "again.jsonl")]
    assert len({result.read_bytes() for result in results}) == 1
    assert len(read_dataset(results[0])) == report.rows_out == 2


def test_an_order_whose_data_were_not_shared_goes_on_once_they_are(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    # The file is not shared now: the vendor cannot fetch it, and says so.
    order = place_order(market, vendor, path, facts, "order-5")
    with pytest.raises(VendorError, match="late"):
        market.run(vendor.fetch(order, tmp_path / "clean.jsonl", 0.5))
    assert not (tmp_path / "clean.jsonl").exists()
    with market.files.share(path, facts.sha256, "mender"):
        report = market.run(vendor.fetch(order, tmp_path / "clean.jsonl", 20.0))
    assert report.rows_out == 2


def test_a_frozen_vendor_is_out_of_one_auction_and_costs_the_others_nothing(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    frozen = market.vendor(process.url)
    with lying_vendor(answer(offer())) as url, market.files.share(path, facts.sha256, "mender"):
        quick = market.vendor(url, "quick")
        process.freeze()
        with capture_logs() as logs:
            late, found = market.run(request_quotes([frozen, quick], facts, 0.5))
        process.thaw()
        assert isinstance(found, Offer)
        assert isinstance(late, VendorError)
        assert (found.vendor, late.fault) == ("quick", Fault.LATE)
        assert [(log["event"], log["vendor"], log["fault"]) for log in logs] == [
            ("a vendor made no offer", "mender", "late")
        ]
        again = market.run(request_quotes([frozen, quick], facts, 10.0))
        assert [one.vendor for one in again if isinstance(one, Offer)] == ["mender", "quick"]
