"""Signatures of messages, in the Standard Webhooks scheme."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import standardwebhooks


def sign_message(key: bytes, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message in the Standard Webhooks scheme (1.0.0).

    The id is the same at every attempt; `at` is the unix time of this one.
    """
    moment = datetime.fromtimestamp(at, UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": standardwebhooks.Webhook(key).sign(message_id, moment, body.decode()),
    }


class WebhookSigner:
    """Signs requests as OpenAI does: its client's `webhooks.unwrap` verifies them.

    The key of a webhook is derived from the service's key and the webhook's id, so that none is
    stored. A new key of the service gives all webhooks new secrets.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def secret(self, webhook_id: str) -> str:
        """Return the secret with which the owner of a webhook verifies signatures."""
        return "whsec_" + base64.b64encode(self._derive(webhook_id)).decode()

    def headers(self, webhook_id: str, event_id: str, at: int, body: bytes) -> dict[str, str]:
        """Return the headers of a delivery; see `sign_message`."""
        return sign_message(self._derive(webhook_id), event_id, at, body)

    def _derive(self, webhook_id: str) -> bytes:
        return hmac.new(self._key, webhook_id.encode(), hashlib.sha256).digest()
