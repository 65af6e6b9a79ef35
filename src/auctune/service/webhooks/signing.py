"""Signatures of webhooks, as OpenAI's are (Standard Webhooks, 1.0.0).

    signature = "v1," + base64(HMAC-SHA256(key, id + "." + timestamp + "." + body))

so that the official client's `webhooks.unwrap` checks them. A hook's key is derived from the
service's and the hook's id: none has to be kept, and none is in the database.
"""

import base64
import hashlib
import hmac
import secrets
from pathlib import Path

from auctune.service.private_files import read_secret, write_private

_SECRET = "whsec_"
_KEY_BYTES = 32


class Signer:
    """Signs for all hooks.

    Args:
        key: of the service; at least 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def secret(self, hook: str) -> str:
        """What the owner of a hook checks signatures with."""
        return _SECRET + base64.b64encode(self._derived(hook)).decode()

    def headers(self, hook: str, event: str, at: int, body: bytes) -> dict[str, str]:
        """The headers of a delivery.

        Args:
            hook: its id.
            event: id of what it tells of: the same at every try.
            at: unix time of this try.
            body: as it is sent.
        """
        text = f"{event}.{at}.".encode() + body
        digest = hmac.new(self._derived(hook), text, hashlib.sha256).digest()
        return {
            "webhook-id": event,
            "webhook-timestamp": str(at),
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        }

    def _derived(self, hook: str) -> bytes:
        return hmac.new(self._key, hook.encode(), hashlib.sha256).digest()


def service_key(path: Path) -> bytes:
    """Return the service's key, which is made at the first start.

    Raises:
        InputError: if its file holds something else; with a new key, all hooks have new secrets.
    """
    key = read_secret(path, _KEY_BYTES)
    if key is None:
        key = secrets.token_bytes(_KEY_BYTES)
        write_private(path, key.hex() + "\n")
    return key
