"""Vendors that deliver the wrong thing, or nothing, over real sockets: none of it is installed."""

import json
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest

from auctune.service.vendors import DatasetSummary, Fault, Order, VendorError
from support.lying_vendor import Handler, Received, Write, answer, head, lying_vendor
from support.vendor_market import VendorMarket

CLEAN = b'{"text": "a row"}\n'


def deliver(data: bytes, report: object, result: object = None) -> Handler:
    """A vendor whose order is done, with this result."""
    found = result or {"bytes": len(data), "sha256": sha256(data).hexdigest()}

    async def lie(asked: Received, write: Write) -> None:
        path = asked.path.partition("?")[0]
        if path.endswith("/data"):
            await answer(data)(asked, write)
        elif path.endswith("/report"):
            await answer(report)(asked, write)
        else:
            await answer({"state": "done", "result": found})(asked, write)

    return lie


def report_on(rows_out: int = 1, kind: str = "text", **changed: object) -> dict[str, object]:
    report = {"kind": kind, "rows_in": 1, "rows_out": rows_out, "actions": {}}
    return {**report, "dropped": [], "examples": [], **changed}


ORDER = Order("order-9", "o-1", Decimal("1.5000"), DatasetSummary(1, 20, "0" * 64))


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
        (deliver(CLEAN, report_on(kind="poem")), Fault.PROTOCOL),
        (deliver(CLEAN, report_on(actions={"text": -1})), Fault.PROTOCOL),
        (deliver(CLEAN, [1]), Fault.PROTOCOL),
        (deliver(CLEAN, b" " * (3 << 20)), Fault.SIZE),
        (deliver(CLEAN, report_on(), {"bytes": len(CLEAN), "sha256": "0" * 64}), Fault.RESULT),
        (
            deliver(CLEAN, report_on(), {"bytes": 5, "sha256": sha256(CLEAN).hexdigest()}),
            Fault.SIZE,
        ),
        (deliver(CLEAN, report_on(), {"bytes": 10**11, "sha256": "0" * 64}), Fault.SIZE),
        (answer({"state": "done"}), Fault.PROTOCOL),
        (answer({"state": "failed", "reason": "no time"}), Fault.FAILED),
        (answer({"reason": "who are you"}, 403), Fault.REFUSED),
    ],
)
def test_a_bad_delivery_leaves_nothing_behind(
    market: VendorMarket, tmp_path: Path, lie: Handler, fault: Fault
) -> None:
    with lying_vendor(lie) as url, pytest.raises(VendorError) as caught:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert caught.value.fault is fault
    assert list(tmp_path.iterdir()) == []


def test_a_vendor_that_never_delivers_is_late_and_not_asked_in_a_rush(
    market: VendorMarket, tmp_path: Path
) -> None:
    asked = []

    async def accepted(request: Received, write: Write) -> None:
        asked.append(request.path)
        await answer({"state": "accepted"})(request, write)

    with lying_vendor(accepted) as url, pytest.raises(VendorError) as caught:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 0.5))
    assert caught.value.fault is Fault.LATE
    # Once each 0.2 s.
    assert 1 <= len(asked) <= 6


def test_a_delivery_that_breaks_off_is_fetched_again(market: VendorMarket, tmp_path: Path) -> None:
    whole = deliver(CLEAN, report_on())
    broken: list[Received] = []

    async def break_off_once(asked: Received, write: Write) -> None:
        if asked.path.endswith("/data") and not broken:
            broken.append(asked)
            await write(head(extra=f"content-length: {len(CLEAN)}\r\n") + CLEAN[:5])
        else:
            await whole(asked, write)

    with lying_vendor(break_off_once) as url:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert (tmp_path / "clean.jsonl").read_bytes() == CLEAN
    assert len(broken) == 1


def test_a_vendor_that_lost_an_order_gets_it_again(market: VendorMarket, tmp_path: Path) -> None:
    whole = deliver(CLEAN, report_on())
    taken: list[bytes] = []

    async def forgetful(asked: Received, write: Write) -> None:
        if asked.method == "PUT":
            taken.append(asked.body)
            await answer({"state": "accepted"}, 201)(asked, write)
        elif not taken:
            await answer({"reason": "no such order"}, 404)(asked, write)
        else:
            await whole(asked, write)

    with lying_vendor(forgetful) as url:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert (tmp_path / "clean.jsonl").read_bytes() == CLEAN
    assert [json.loads(body)["offer"] for body in taken] == [ORDER.offer]
