"""Vendors that break the protocol, stall or lie, over real sockets: they are left out."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctune.service.vendors import (
    DatasetSummary,
    Fault,
    Offer,
    VendorClient,
    VendorError,
    request_quotes,
)
from support.lying_vendor import Handler, Received, Write, answer, head, lying_vendor, offer
from support.vendor_market import TOKEN, VendorMarket


def fault_of(market: VendorMarket, vendor: VendorClient, seconds: float = 5.0) -> Fault:
    """Why a vendor is out of an auction."""
    facts = DatasetSummary(4, 200, "0" * 64)
    (found,) = market.run(request_quotes([vendor], facts, seconds))
    assert isinstance(found, VendorError)
    return found.fault


def test_vendors_are_asked_at_the_same_time(market: VendorMarket) -> None:
    waiting: list[str] = []
    all_there = asyncio.Event()

    async def wait_for_the_other(asked: Received, write: Write) -> None:
        waiting.append(asked.path)
        if len(waiting) == 2:
            all_there.set()
        await all_there.wait()
        await answer(offer())(asked, write)

    with lying_vendor(wait_for_the_other) as url:
        both = [market.vendor(url, "a"), market.vendor(url, "b")]
        found = market.run(request_quotes(both, DatasetSummary(1, 1, "0" * 64), 10.0))
    assert [one.vendor for one in found if isinstance(one, Offer)] == ["a", "b"]


def test_a_vendor_that_is_busy_for_a_moment_is_asked_again(market: VendorMarket) -> None:
    tokens = []

    async def busy_twice(asked: Received, write: Write) -> None:
        tokens.append(asked.headers["authorization"])
        if len(tokens) < 3:
            await write(b"HTTP/1.1 503 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        else:
            await answer(offer())(asked, write)

    with lying_vendor(busy_twice) as url:
        found = market.run(market.vendor(url).quote(DatasetSummary(1, 1, "0" * 64), 10.0))
    assert isinstance(found, Offer)
    assert tokens == [TOKEN.authorization] * 3


def test_a_vendor_that_is_not_there_is_late(market: VendorMarket) -> None:
    with lying_vendor(answer(offer())) as url:
        pass
    assert fault_of(market, market.vendor(url), 0.3) is Fault.LATE


async def redirect(asked: Received, write: Write) -> None:
    await write(head(307, f"location: {asked.path}\r\n"))


async def oversized(asked: Received, write: Write) -> None:
    await answer(json.dumps(offer()).encode() + b" " * (1 << 17))(asked, write)


async def endless(asked: Received, write: Write) -> None:
    await write(head())
    while True:
        await write(b" " * 65536)


async def slow_drip(asked: Received, write: Write) -> None:
    await write(head())
    while True:
        await write(b" ")
        await asyncio.sleep(0.02)


async def slow_head(asked: Received, write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await write(b"x: y\r\n")
        await asyncio.sleep(0.02)


async def compressed(asked: Received, write: Write) -> None:
    await write(head(extra="content-encoding: gzip\r\n"))


async def hangs_up(asked: Received, write: Write) -> None:
    return


@pytest.mark.parametrize(
    ("lie", "fault"),
    [
        (answer({"reason": "who are you?"}, 401), Fault.REFUSED),
        (redirect, Fault.REDIRECT),
        (oversized, Fault.SIZE),
        (endless, Fault.SIZE),
        (compressed, Fault.PROTOCOL),
        (answer(b"<html>"), Fault.PROTOCOL),
        (answer(b"[" * 60_000), Fault.PROTOCOL),
        (answer({"decision": "perhaps"}), Fault.PROTOCOL),
        (answer(offer(delay_seconds=-1)), Fault.PROTOCOL),
        (answer(offer(delay_seconds=1.5)), Fault.PROTOCOL),
        (answer(offer(offer="")), Fault.PROTOCOL),
        (answer(offer(price=1.5)), Fault.PRICE),
        (answer(offer(price="-1")), Fault.PRICE),
        (answer(offer(price="NaN")), Fault.PRICE),
        (answer(offer(price="1e3")), Fault.PRICE),
        (answer(offer(price="1.00001")), Fault.PRICE),
        (answer(offer(price="٣")), Fault.PRICE),
        (answer(offer(price="999999999999")), Fault.PRICE),
        (answer({"reason": "go away"}, 403), Fault.REFUSED),
        (answer({"reason": "a bug"}, 500), Fault.REFUSED),
    ],
)
def test_a_vendor_that_misbehaves_is_out_of_the_auction_at_once(
    market: VendorMarket, lie: Handler, fault: Fault
) -> None:
    with lying_vendor(lie) as url:
        assert fault_of(market, market.vendor(url)) is fault


@pytest.mark.parametrize("lie", [slow_drip, slow_head, hangs_up])
def test_a_vendor_that_comes_to_no_end_is_late(market: VendorMarket, lie: Handler) -> None:
    with lying_vendor(lie) as url:
        assert fault_of(market, market.vendor(url), 0.3) is Fault.LATE


@settings(max_examples=25)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_whatever_are_more_than_a_vendor_that_is_absent(
    market: VendorMarket, said: bytes, with_head: bool
) -> None:
    async def babble(asked: Received, write: Write) -> None:
        await write((b"HTTP/1.1 200 OK\r\n" if with_head else b"") + said)

    with lying_vendor(babble) as url:
        assert fault_of(market, market.vendor(url), 0.05) in (Fault.LATE, Fault.PROTOCOL)
