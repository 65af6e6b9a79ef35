"""Both sides of the vendor protocol over real sockets, the example's vendor as a real process."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from auctune.domain import Quote
from auctune.domain.dataset import read_dataset
from auctune.run.vendors import RepairVendor, Vendor
from auctune.service.vendors import (
    BlockingVendor,
    DataFacts,
    Decline,
    Fault,
    HttpVendor,
    Offer,
    Order,
    Secret,
    VendorError,
    ask_vendors,
    read_facts,
)
from auctune.service.vendors.signature import SIGNATURE, sign_answer
from support.lying_vendor import Asked, Lie, Write, answer, lying_vendor, offer, signed_head
from support.vendor_market import SECRET, VendorMarket, vendor_market
from support.vendor_process import VendorProcess

SECRET_TEXT = "shared-with-one-vendor-" + "s" * 20
MESSY = (
    '{"prompt": "What is a bid?", "completion": "An offer to pay."}\n'
    '{"instruction": "Name the auction", "output": "second price",}\n'
    '{"prompt": "WHAT is a bid?", "completion": "An offer  to pay."}\n'
    '{"prompt": "cut off", "comple\n'
)


@pytest.fixture(scope="module")
def market() -> Iterator[VendorMarket]:
    with vendor_market({"mender": SECRET, "other": Secret("another-vendor-" + "o" * 20)}) as market:
        yield market


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorProcess]:
    folder = tmp_path_factory.mktemp("vendor") / "orders"
    terms = ("--price", "0.5", "--price-per-row", "0.25", "--delay-seconds", "90")
    with VendorProcess(folder, SECRET_TEXT, *terms) as process:
        yield process


def write_messy(folder: Path, text: str = MESSY) -> tuple[Path, DataFacts]:
    path = folder / "messy.jsonl"
    path.write_text(text)
    return path, read_facts(path)


def fault_of(market: VendorMarket, vendor: HttpVendor, seconds: float = 5.0) -> Fault:
    """Why a vendor is out of an auction."""
    facts = DataFacts(4, 200, "0" * 64)
    found = market.run(ask_vendors([vendor], facts, seconds))
    assert (found.offers, found.declines) == ((), ())
    return found.absences[0].fault


def place_order(
    market: VendorMarket, vendor: HttpVendor, path: Path, facts: DataFacts, order_id: str
) -> Order:
    """An order by a new offer; the file is lent for the quote only."""
    with market.lent.lend(path, facts.sha256):
        found = market.run(vendor.quote(facts, 10.0))
    assert isinstance(found, Offer)
    order = Order(order_id, found.id, found.price, facts)
    market.run(vendor.order(order))
    return order


def test_a_repair_over_http_is_the_repair_in_process(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.lent.lend(path, facts.sha256):
        found = market.run(vendor.quote(facts, 10.0))
        assert isinstance(found, Offer)
        assert found.to_quote(60.0) == Quote("mender", Decimal("1.5000"), 2)
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
    with market.lent.lend(path, facts.sha256):
        order = place_order(market, vendor, path, facts, "order-2")
        first = market.run(vendor.fetch(order, tmp_path / "first.jsonl", 20.0))
    # Nobody lends the data now: there is nothing that could be done anew.
    market.run(vendor.order(order))
    assert market.run(vendor.fetch(order, tmp_path / "again.jsonl", 20.0)) == first
    with pytest.raises(VendorError, match="another order has this id"):
        market.run(vendor.order(replace(order, price=Decimal("9"))))
    market.run(vendor.forget(order))
    market.run(vendor.forget(order))
    with pytest.raises(VendorError, match="dropped"):
        market.run(vendor.order(order))


@pytest.mark.parametrize("change", ["price", "data", "offer"])
def test_an_order_that_was_not_offered_is_not_taken(
    market: VendorMarket, process: VendorProcess, tmp_path: Path, change: str
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.lent.lend(path, facts.sha256):
        found = market.run(vendor.quote(facts, 10.0))
    assert isinstance(found, Offer)
    changed = {
        "price": Order("order-0", found.id, Decimal("0.0001"), facts),
        "data": Order("order-0", found.id, found.price, DataFacts(4, 200, "0" * 64)),
        "offer": Order("order-0", "9" + found.id, found.price, facts),
    }
    with pytest.raises(VendorError, match="this was not offered"):
        market.run(vendor.order(changed[change]))


def test_a_vendor_declines_what_cannot_be_repaired(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path, "nothing to be had\n")
    with market.lent.lend(path, facts.sha256):
        found = market.run(market.vendor(process.url).quote(facts, 10.0))
    assert found == Decline("mender", "no usable row would be left")


def test_a_vendor_that_cannot_fetch_the_data_declines(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    _, facts = write_messy(tmp_path)
    found = market.run(market.vendor(process.url).quote(facts, 10.0))
    assert isinstance(found, Decline)


def test_a_secret_that_is_not_shared_ends_the_conversation(
    market: VendorMarket, process: VendorProcess
) -> None:
    stranger = market.vendor(process.url, secret=Secret("a" * 40))
    assert fault_of(market, stranger) is Fault.SIGNATURE


def test_kill_9_loses_no_order_that_is_done_and_none_that_is_being_done(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    with market.lent.lend(path, facts.sha256):
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
        process.kill()
        market.gate.reached.clear()
        process.restart()
        # Nobody has told it anything, and it asks for the data again.
        assert market.gate.reached.wait(10)
        assert not fetching.done()
        market.call(market.gate.open)
        assert fetching.result(20) == report
    assert market.run(vendor.fetch(done, tmp_path / "again.jsonl", 20.0)) == report
    results = [tmp_path / name for name in ("done.jsonl", "clean.jsonl", "again.jsonl")]
    assert len({result.read_bytes() for result in results}) == 1
    assert len(read_dataset(results[0])) == report.rows_out == 2


def test_an_order_whose_link_is_over_goes_on_with_a_new_one(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    vendor = market.vendor(process.url)
    # Nobody lends the file now: the vendor finds it gone, and says that it needs it.
    order = place_order(market, vendor, path, facts, "order-5")
    with pytest.raises(VendorError, match="late"):
        market.run(vendor.fetch(order, tmp_path / "clean.jsonl", 0.5))
    assert not (tmp_path / "clean.jsonl").exists()
    with market.lent.lend(path, facts.sha256):
        report = market.run(vendor.fetch(order, tmp_path / "clean.jsonl", 20.0))
    assert report.rows_out == 2


def test_a_frozen_vendor_is_out_of_one_auction_and_costs_the_others_nothing(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, facts = write_messy(tmp_path)
    frozen = market.vendor(process.url)
    with lying_vendor(answer(SECRET, offer())) as url, market.lent.lend(path, facts.sha256):
        quick = market.vendor(url, "quick")
        process.freeze()
        began = time.monotonic()
        with capture_logs() as logs:
            found = market.run(ask_vendors([frozen, quick], facts, 0.5))
        assert time.monotonic() - began < 2.0
        process.thaw()
        assert [one.vendor for one in found.offers] == ["quick"]
        assert [one.fault for one in found.absences] == [Fault.LATE]
        assert [(log["event"], log["vendor"], log["fault"]) for log in logs] == [
            ("vendor_absent", "mender", "late")
        ]
        again = market.run(ask_vendors([frozen, quick], facts, 10.0))
        assert [one.vendor for one in again.offers] == ["mender", "quick"]


def test_vendors_are_asked_at_the_same_time(market: VendorMarket) -> None:
    waiting: list[str] = []
    all_there = asyncio.Event()

    async def wait_for_the_other(asked: Asked, write: Write) -> None:
        waiting.append(asked.path)
        if len(waiting) == 2:
            all_there.set()
        await all_there.wait()
        await answer(SECRET, offer())(asked, write)

    with lying_vendor(wait_for_the_other) as url:
        both = [market.vendor(url, "a"), market.vendor(url, "b")]
        found = market.run(ask_vendors(both, DataFacts(1, 1, "0" * 64), 10.0))
    assert [one.vendor for one in found.offers] == ["a", "b"]


def test_a_vendor_that_is_busy_for_a_moment_is_asked_again(market: VendorMarket) -> None:
    signatures = []

    async def busy_twice(asked: Asked, write: Write) -> None:
        signatures.append(asked.headers[SIGNATURE])
        if len(signatures) < 3:
            await write(b"HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        else:
            await answer(SECRET, offer())(asked, write)

    with lying_vendor(busy_twice) as url:
        found = market.run(market.vendor(url).quote(DataFacts(1, 1, "0" * 64), 10.0))
    assert isinstance(found, Offer)
    assert len(set(signatures)) == 3


def test_a_vendor_that_is_not_there_is_late(market: VendorMarket) -> None:
    with lying_vendor(answer(SECRET, offer())) as url:
        pass
    assert fault_of(market, market.vendor(url), 0.3) is Fault.LATE


async def wrong_signature(asked: Asked, write: Write) -> None:
    await answer(Secret("w" * 40), offer())(asked, write)


async def no_signature(asked: Asked, write: Write) -> None:
    body = json.dumps(offer()).encode()
    await write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


async def another_body(asked: Asked, write: Write) -> None:
    body = json.dumps(offer(price="0.0001")).encode()
    await write(signed_head(SECRET, asked, sha256(b"what was signed").hexdigest()) + body)


async def of_long_ago(asked: Asked, write: Write) -> None:
    body = json.dumps(offer()).encode()
    digest = sha256(body).hexdigest()
    await write(signed_head(SECRET, asked, digest, now=time.time() - 302) + body)


async def to_another_request(asked: Asked, write: Write) -> None:
    body = json.dumps(offer()).encode()
    digest = sha256(body).hexdigest()
    signed = sign_answer(SECRET, 200, digest, "0" * 64, time.time())
    head = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    await write(f"HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n".encode() + body)


async def redirect(asked: Asked, write: Write) -> None:
    extra = f"location: {asked.path}\r\n"
    await write(signed_head(SECRET, asked, sha256(b"").hexdigest(), 307, extra=extra))


async def oversized(asked: Asked, write: Write) -> None:
    await answer(SECRET, json.dumps(offer()).encode() + b" " * (1 << 17))(asked, write)


async def endless(asked: Asked, write: Write) -> None:
    await write(signed_head(SECRET, asked, "0" * 64))
    while True:
        await write(b" " * 65536)


async def slow_drip(asked: Asked, write: Write) -> None:
    await write(signed_head(SECRET, asked, "0" * 64))
    while True:
        await write(b" ")
        await asyncio.sleep(0.02)


async def slow_head(asked: Asked, write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await write(b"x: y\r\n")
        await asyncio.sleep(0.02)


async def compressed(asked: Asked, write: Write) -> None:
    await write(signed_head(SECRET, asked, "0" * 64, extra="content-encoding: gzip\r\n"))


async def hangs_up(asked: Asked, write: Write) -> None:
    return


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (wrong_signature, Fault.SIGNATURE),
        (no_signature, Fault.SIGNATURE),
        (another_body, Fault.SIGNATURE),
        (of_long_ago, Fault.SIGNATURE),
        (to_another_request, Fault.SIGNATURE),
        (redirect, Fault.REDIRECT),
        (oversized, Fault.SIZE),
        (endless, Fault.SIZE),
        (compressed, Fault.NONSENSE),
        (answer(SECRET, b"<html>"), Fault.NONSENSE),
        (answer(SECRET, b"[" * 60_000), Fault.NONSENSE),
        (answer(SECRET, {"decision": "perhaps"}), Fault.NONSENSE),
        (answer(SECRET, offer(delay_seconds=-1)), Fault.NONSENSE),
        (answer(SECRET, offer(delay_seconds=1.5)), Fault.NONSENSE),
        (answer(SECRET, offer(offer="")), Fault.NONSENSE),
        (answer(SECRET, offer(price=1.5)), Fault.PRICE),
        (answer(SECRET, offer(price="-1")), Fault.PRICE),
        (answer(SECRET, offer(price="NaN")), Fault.PRICE),
        (answer(SECRET, offer(price="1e3")), Fault.PRICE),
        (answer(SECRET, offer(price="1.00001")), Fault.PRICE),
        (answer(SECRET, offer(price="٣")), Fault.PRICE),
        (answer(SECRET, offer(price="999999999999")), Fault.PRICE),
        (answer(SECRET, {"reason": "go away"}, 403), Fault.REFUSED),
        (answer(SECRET, {"reason": "a bug"}, 500), Fault.REFUSED),
    ],
)
def test_a_vendor_that_misbehaves_is_out_of_the_auction_at_once(
    market: VendorMarket, lie: Lie, fault: Fault
) -> None:
    with lying_vendor(lie) as url:
        assert fault_of(market, market.vendor(url)) is fault


@pytest.mark.parametrize("lie", [slow_drip, slow_head, hangs_up])
def test_a_vendor_that_comes_to_no_end_is_late(market: VendorMarket, lie: Lie) -> None:
    with lying_vendor(lie) as url:
        began = time.monotonic()
        assert fault_of(market, market.vendor(url), 0.3) is Fault.LATE
        assert time.monotonic() - began < 2.0


CLEAN = b'{"text": "a row"}\n'


def deliver(data: bytes, report: object, result: object = None) -> Lie:
    """A vendor whose order is done, with this result."""
    found = result or {"bytes": len(data), "sha256": sha256(data).hexdigest()}

    async def lie(asked: Asked, write: Write) -> None:
        path = asked.path.partition("?")[0]
        if path.endswith("/data"):
            await answer(SECRET, data)(asked, write)
        elif path.endswith("/report"):
            await answer(SECRET, report)(asked, write)
        else:
            await answer(SECRET, {"state": "done", "result": found})(asked, write)

    return lie


def report_on(rows_out: int = 1, kind: str = "text", **changed: object) -> dict[str, object]:
    report = {"kind": kind, "rows_in": 1, "rows_out": rows_out, "actions": {}}
    return {**report, "dropped": [], "examples": [], **changed}


ORDER = Order("order-9", "o-1", Decimal("1.5000"), DataFacts(1, 20, "0" * 64))


def test_what_was_delivered_counts_once_it_is_a_data_set_as_reported(
    market: VendorMarket, tmp_path: Path
) -> None:
    with lying_vendor(deliver(CLEAN, report_on())) as url:
        report = market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert (tmp_path / "clean.jsonl").read_bytes() == CLEAN
    assert (report.vendor, report.rows_out) == ("mender", 1)


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (deliver(b'{"txt": 1}\n', report_on()), Fault.RESULT),
        (deliver(b"\x80\x00", report_on()), Fault.RESULT),
        (deliver(b"", report_on()), Fault.RESULT),
        (deliver(CLEAN * 2, report_on()), Fault.RESULT),
        (deliver(CLEAN, report_on(kind="chat")), Fault.RESULT),
        (deliver(CLEAN, report_on(rows_out=2)), Fault.RESULT),
        (deliver(CLEAN, report_on(kind="poem")), Fault.NONSENSE),
        (deliver(CLEAN, report_on(actions={"text": -1})), Fault.NONSENSE),
        (deliver(CLEAN, [1]), Fault.NONSENSE),
        (deliver(CLEAN, b" " * (3 << 20)), Fault.SIZE),
        (deliver(CLEAN, report_on(), {"bytes": 5, "sha256": "0" * 64}), Fault.RESULT),
        (
            deliver(CLEAN, report_on(), {"bytes": 5, "sha256": sha256(CLEAN).hexdigest()}),
            Fault.SIZE,
        ),
        (deliver(CLEAN, report_on(), {"bytes": 10**11, "sha256": "0" * 64}), Fault.SIZE),
        (answer(SECRET, {"state": "done"}), Fault.NONSENSE),
        (answer(SECRET, {"state": "failed", "reason": "no time"}), Fault.FAILED),
        (answer(SECRET, {"reason": "who are you"}, 403), Fault.REFUSED),
    ],
)
def test_a_bad_delivery_leaves_nothing_behind(
    market: VendorMarket, tmp_path: Path, lie: Lie, fault: Fault
) -> None:
    with lying_vendor(lie) as url, pytest.raises(VendorError) as caught:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert caught.value.fault is fault
    assert list(tmp_path.iterdir()) == []


def test_a_vendor_that_never_delivers_is_late_and_not_asked_in_a_rush(
    market: VendorMarket, tmp_path: Path
) -> None:
    asked = []

    async def accepted(request: Asked, write: Write) -> None:
        asked.append(request.path)
        await answer(SECRET, {"state": "accepted"})(request, write)

    with lying_vendor(accepted) as url, pytest.raises(VendorError) as caught:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 0.5))
    assert caught.value.fault is Fault.LATE
    # Once each 0.2 s.
    assert 1 <= len(asked) <= 3


def test_a_delivery_that_breaks_off_is_fetched_again(market: VendorMarket, tmp_path: Path) -> None:
    whole = deliver(CLEAN, report_on())
    broken: list[Asked] = []

    async def break_off_once(asked: Asked, write: Write) -> None:
        if asked.path.endswith("/data") and not broken:
            broken.append(asked)
            extra = f"content-length: {len(CLEAN)}\r\n"
            head = signed_head(SECRET, asked, sha256(CLEAN).hexdigest(), extra=extra)
            await write(head + CLEAN[:5])
        else:
            await whole(asked, write)

    with lying_vendor(break_off_once) as url:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert (tmp_path / "clean.jsonl").read_bytes() == CLEAN
    assert len(broken) == 1


def test_a_thread_without_a_loop_uses_it_as_any_vendor(
    market: VendorMarket, process: VendorProcess, tmp_path: Path
) -> None:
    path, _ = write_messy(tmp_path)
    vendor: Vendor = BlockingVendor(
        market.vendor(process.url), market.loop, market.lent, time.time, 60.0, 10.0, 20.0
    )
    assert vendor.quote(path) == Quote("mender", Decimal("1.5000"), 2)
    report = vendor.repair(path, path)
    assert (report.vendor, report.rows_out, len(read_dataset(path))) == ("mender", 2, 2)
