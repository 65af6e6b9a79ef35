"""Vendors that lie, stall or talk nonsense, over real sockets: none of it does harm."""

import asyncio
import json
import time
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auctune.service.vendors import (
    DataFacts,
    Fault,
    HttpVendor,
    Offer,
    Secret,
    ask_vendors,
)
from auctune.service.vendors.signature import SIGNATURE, sign_answer
from support.lying_vendor import Asked, Lie, Write, answer, lying_vendor, offer, signed_head
from support.vendor_market import SECRET, VendorMarket


def fault_of(market: VendorMarket, vendor: HttpVendor, seconds: float = 5.0) -> Fault:
    """Why a vendor is out of an auction."""
    facts = DataFacts(4, 200, "0" * 64)
    found = market.run(ask_vendors([vendor], facts, seconds))
    assert (found.offers, found.declines) == ((), ())
    return found.absences[0].fault


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


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_whatever_are_more_than_a_vendor_that_is_absent(
    market: VendorMarket, said: bytes, with_head: bool
) -> None:
    async def babble(asked: Asked, write: Write) -> None:
        await write((b"HTTP/1.1 200 OK\r\n" if with_head else b"") + said)

    with lying_vendor(babble) as url:
        assert fault_of(market, market.vendor(url), 0.05) in (Fault.LATE, Fault.SIGNATURE)
