import hmac
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.service.vendors import Secret
from auctune.service.vendors.nonces import SeenNonces
from auctune.service.vendors.signature import (
    DIGEST,
    NONCE,
    SIGNATURE,
    TIMESTAMP,
    SignatureError,
    check_answer,
    check_request,
    sign_answer,
    sign_request,
)

KEY = "0123456789abcdef0123456789abcdef"
SECRET = Secret(KEY)
BODY = b'{"a": 1}'
BODY_DIGEST = sha256(BODY).hexdigest()
NOW = 1_700_000_000.7
THE_NONCE = "n" * 16


def signed(now: float = NOW, nonce: str = THE_NONCE) -> dict[str, str]:
    return sign_request(SECRET, "PUT", "/v1/orders/1?x=2", BODY_DIGEST, now, nonce)


def check(
    headers: dict[str, str],
    now: float = NOW,
    method: str = "PUT",
    path: str = "/v1/orders/1?x=2",
    body: bytes = BODY,
    seen: SeenNonces | None = None,
    secret: Secret = SECRET,
) -> None:
    check_request(secret, method, path, body, headers, now, seen or SeenNonces(601.0))


def test_a_request_is_signed_as_the_protocol_says() -> None:
    text = (
        "auctune-vendor-1 request\nPUT\n/v1/orders/1?x=2\n1700000000\nnnnnnnnnnnnnnnnn\n"
        + sha256(b'{"a": 1}').hexdigest()
    )
    expected = hmac.digest(KEY.encode(), text.encode(), "sha256").hex()
    assert signed() == {
        "auctune-timestamp": "1700000000",
        "auctune-nonce": "nnnnnnnnnnnnnnnn",
        "auctune-digest": sha256(b'{"a": 1}').hexdigest(),
        "auctune-signature": expected,
    }
    check(signed())


def test_a_request_of_which_anything_was_changed_is_refused() -> None:
    for changed in ({"method": "GET"}, {"path": "/v1/orders/2?x=2"}, {"path": "/v1/orders/1"}):
        with pytest.raises(SignatureError, match="signature is wrong"):
            check(signed(), **changed)  # type: ignore[arg-type]
    with pytest.raises(SignatureError, match="body"):
        check(signed(), body=b'{"a": 2}')
    with pytest.raises(SignatureError, match="signature is wrong"):
        check(signed(), secret=Secret("f" * 32))
    for name, value in signed().items():
        other = {**signed(), name: "1700000001" if name == TIMESTAMP else value[::-1] + "0"}
        with pytest.raises(SignatureError, match="wrong"):
            check(other)
        with pytest.raises(SignatureError, match=f"no header {name}"):
            check({key: value for key, value in signed().items() if key != name})


@given(st.text(), st.text())
def test_no_header_from_outside_does_more_than_be_refused(signature: str, timestamp: str) -> None:
    with pytest.raises(SignatureError):
        check({**signed(), SIGNATURE: signature, TIMESTAMP: timestamp})


@pytest.mark.parametrize("off", [-300, 0, 300])
def test_clocks_may_be_five_minutes_apart(off: int) -> None:
    seen = SeenNonces(601.0)
    check(signed(now=1_700_000_000 + off), now=1_700_000_000, seen=seen)
    # It was taken: its nonce is used up.
    assert not seen.add(THE_NONCE, 1_700_000_000)


@pytest.mark.parametrize("off", [-301, 301, -1e6])
def test_a_request_from_outside_the_window_is_refused(off: float) -> None:
    with pytest.raises(SignatureError, match="300 s off"):
        check(signed(now=1_700_000_000 + off), now=1_700_000_000)


def test_a_request_is_taken_once() -> None:
    seen = SeenNonces(601.0)
    check(signed(), seen=seen)
    with pytest.raises(SignatureError, match="used before"):
        check(signed(), seen=seen)
    check(signed(nonce="m" * 16), seen=seen)


def test_a_forged_request_does_not_use_up_a_nonce() -> None:
    seen = SeenNonces(601.0)
    with pytest.raises(SignatureError):
        check({**signed(), SIGNATURE: "0" * 64}, seen=seen)
    check(signed(), seen=seen)


@pytest.mark.parametrize("nonce", ["", "short", "x" * 65])
def test_a_nonce_has_a_sensible_length(nonce: str) -> None:
    with pytest.raises(SignatureError, match="nonce"):
        check(signed(nonce=nonce))


def test_an_answer_counts_for_its_own_request_and_status_only() -> None:
    ours, other = signed()[SIGNATURE], signed(nonce="m" * 16)[SIGNATURE]
    headers = sign_answer(SECRET, 200, BODY_DIGEST, ours, NOW)
    assert check_answer(SECRET, 200, headers, ours, NOW) == BODY_DIGEST
    for status, request, digest in (
        (201, ours, BODY_DIGEST),
        (200, other, BODY_DIGEST),
        (200, ours, "0" * 64),
    ):
        with pytest.raises(SignatureError, match="wrong"):
            check_answer(SECRET, status, {**headers, DIGEST: digest}, request, NOW)
    with pytest.raises(SignatureError, match="300 s off"):
        check_answer(SECRET, 200, headers, ours, NOW + 302)


def test_a_request_cannot_be_sent_back_as_its_answer() -> None:
    with pytest.raises(SignatureError):
        check_answer(SECRET, 200, signed(), signed()[NONCE], NOW)


def test_nonces_are_forgotten_when_their_time_is_over() -> None:
    seen = SeenNonces(10.0)
    assert seen.add("a", 0.0)
    assert not seen.add("a", 9.9)
    assert seen.add("a", 10.0)


def test_a_flood_of_nonces_opens_no_gap() -> None:
    seen = SeenNonces(10.0, room=2)
    assert [seen.add(nonce, 0.0) for nonce in "abc"] == [True, True, False]
    assert not seen.add("a", 5.0)
    assert seen.add("c", 10.0)
