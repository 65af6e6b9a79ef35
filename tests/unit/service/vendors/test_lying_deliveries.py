"""Vendors that lie, stall or talk nonsense, over real sockets: nothing of it becomes a data set."""

import json
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import pytest

from auctune.service.vendors import (
    DataFacts,
    Fault,
    Order,
    VendorError,
)
from support.lying_vendor import Asked, Lie, Write, answer, lying_vendor, signed_head
from support.vendor_market import SECRET, VendorMarket

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


def test_a_vendor_that_lost_an_order_gets_it_again(market: VendorMarket, tmp_path: Path) -> None:
    whole = deliver(CLEAN, report_on())
    taken: list[bytes] = []

    async def forgetful(asked: Asked, write: Write) -> None:
        if asked.method == "PUT":
            taken.append(asked.body)
            await answer(SECRET, {"state": "accepted"}, 201)(asked, write)
        elif not taken:
            await answer(SECRET, {"reason": "no such order"}, 404)(asked, write)
        else:
            await whole(asked, write)

    with lying_vendor(forgetful) as url:
        market.run(market.vendor(url).fetch(ORDER, tmp_path / "clean.jsonl", 5.0))
    assert (tmp_path / "clean.jsonl").read_bytes() == CLEAN
    assert [json.loads(body)["offer"] for body in taken] == [ORDER.offer]
