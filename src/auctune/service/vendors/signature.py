"""Signatures of requests and answers between a market and a vendor.

    request: HMAC(secret, "auctune-vendor-1 request", method, path, timestamp, nonce, digest)
    answer:  HMAC(secret, "auctune-vendor-1 answer", status, timestamp, request's signature, digest)

one field a line; digest is SHA-256 of the body, path has the query with it. An answer signs its
request's signature, so none can stand for another; a request carries a nonce, so none can come
twice; and a timestamp, so that nonces need not be remembered for ever.
"""

from collections.abc import Mapping
from hashlib import sha256

from auctune.service.vendors.nonces import SeenNonces
from auctune.service.vendors.secret import Secret

WINDOW_SECONDS = 300
TIMESTAMP = "auctune-timestamp"
NONCE = "auctune-nonce"
DIGEST = "auctune-digest"
SIGNATURE = "auctune-signature"
NO_BODY = sha256(b"").hexdigest()

_REQUEST = "auctune-vendor-1 request"
_ANSWER = "auctune-vendor-1 answer"
_NONCE_CHARACTERS = range(16, 65)
# Ten digits last until the year 2286.
_TIMESTAMP_CHARACTERS = range(1, 11)


class SignatureError(Exception):
    """A message that is not known to come from the other party, now and for the first time."""


def sign_request(
    secret: Secret, method: str, path: str, digest: str, now: float, nonce: str
) -> dict[str, str]:
    """Headers that sign a request.

    Args:
        secret: shared with who gets the request.
        method: in capitals.
        path: as it stands in the request line, with its query.
        digest: SHA-256 of the body, in hexadecimal.
        now: unix time.
        nonce: 16 to 64 characters that were not used before.
    """
    timestamp = str(int(now))
    text = "\n".join((_REQUEST, method, path, timestamp, nonce, digest))
    return {TIMESTAMP: timestamp, NONCE: nonce, DIGEST: digest, SIGNATURE: secret.sign(text)}


def check_request(
    secret: Secret,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    now: float,
    seen: SeenNonces,
) -> None:
    """Make sure of a request.

    Raises:
        SignatureError: saying what is wrong with it.
    """
    nonce, digest = _read(headers, NONCE), _read(headers, DIGEST)
    text = "\n".join((_REQUEST, method, path, _read(headers, TIMESTAMP), nonce, digest))
    _check(secret, text, headers, now)
    if digest != sha256(body).hexdigest():
        raise SignatureError("the body is not the one that was signed")
    if len(nonce) not in _NONCE_CHARACTERS:
        raise SignatureError("the nonce is not of 16 to 64 characters")
    if not seen.add(nonce, now):
        raise SignatureError("the nonce was used before")


def sign_answer(
    secret: Secret, status: int, digest: str, request_signature: str, now: float
) -> dict[str, str]:
    """Headers that sign an answer: `request_signature` is the header of what it answers."""
    timestamp = str(int(now))
    text = "\n".join((_ANSWER, str(status), timestamp, request_signature, digest))
    return {TIMESTAMP: timestamp, DIGEST: digest, SIGNATURE: secret.sign(text)}


def check_answer(
    secret: Secret, status: int, headers: Mapping[str, str], request_signature: str, now: float
) -> str:
    """The digest that the answer's body must have, once its head is known to be genuine.

    Raises:
        SignatureError: saying what is wrong with it.
    """
    digest = _read(headers, DIGEST)
    fields = (_ANSWER, str(status), _read(headers, TIMESTAMP), request_signature, digest)
    _check(secret, "\n".join(fields), headers, now)
    return digest


def _check(secret: Secret, text: str, headers: Mapping[str, str], now: float) -> None:
    if not secret.matches(text, _read(headers, SIGNATURE)):
        raise SignatureError("the signature is wrong")
    timestamp = _read(headers, TIMESTAMP)
    if not (timestamp.isdecimal() and len(timestamp) in _TIMESTAMP_CHARACTERS):
        raise SignatureError("the timestamp is no unix time")
    if abs(now - int(timestamp)) > WINDOW_SECONDS:
        raise SignatureError(f"the timestamp is more than {WINDOW_SECONDS} s off")


def _read(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if value is None:
        raise SignatureError(f"there is no header {name}")
    return value
