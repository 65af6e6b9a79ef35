"""Webhooks that users registered, held in memory and stored in the database; their signatures."""

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import orjson
import standardwebhooks
from sqlalchemy import Engine

from auctune.domain import InputError
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.identifiers import new_id
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.queries import read_values
from auctune.service.webhooks.delivery import is_public

_ROW_PREFIX = "webhook:"


MAX_WEBHOOKS = 10
"""Largest number of webhooks of a user."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A registered address; events up to the sequence number `since` are not sent."""

    id: str
    user: str
    url: str
    created_at: float
    since: int


class WebhookRegistry:
    """Webhooks of all users."""

    def __init__(
        self,
        reader: Engine,
        committer: Committer,
        now: Callable[[], float],
        *,
        private_addresses: bool = False,
    ) -> None:
        self._committer = committer
        self._now = now
        self._private_addresses = private_addresses
        stored = read_values(reader, _ROW_PREFIX)
        self._webhooks = {name: Webhook(**orjson.loads(text)) for name, text in stored.items()}

    def for_user(self, user: str) -> list[Webhook]:
        """Return a user's webhooks, the oldest first."""
        found = [webhook for webhook in self._webhooks.values() if webhook.user == user]
        return sorted(found, key=lambda webhook: webhook.since)

    def get(self, webhook_id: str) -> Webhook | None:
        return self._webhooks.get(webhook_id)

    @property
    def earliest_seq(self) -> int:
        """Sequence number of the first event that any webhook is notified of."""
        return min((webhook.since for webhook in self._webhooks.values()), default=0)

    def __len__(self) -> int:
        return len(self._webhooks)

    async def add(self, user: str, url: str) -> Webhook:
        """Register an address, and return once it is stored.

        A private address may not be allowed. A host name is resolved at each delivery, not here.
        """
        host = _check_url(url)
        if not self._private_addresses and _is_private(host):
            expected = "a public address; private_addresses in [webhooks] allows private ones"
            raise InputError("url", repr(url), expected)
        if len(self.for_user(user)) >= MAX_WEBHOOKS:
            raise LimitReachedError(f"you already have {MAX_WEBHOOKS} webhooks, the maximum")
        webhook = Webhook(new_id("hook"), user, url, self._now(), self._committer.next_seq())
        self._webhooks[webhook.id] = webhook
        row = {"name": _ROW_PREFIX + webhook.id, "value": orjson.dumps(asdict(webhook)).decode()}
        await durable(self._committer, WriteBatch().upsert(tables.meta, row))
        return webhook

    async def remove(self, webhook: Webhook) -> None:
        """Delete a webhook; pending deliveries to it are dropped."""
        self._webhooks.pop(webhook.id, None)
        batch = WriteBatch().remove(tables.meta, {"name": _ROW_PREFIX + webhook.id})
        await durable(self._committer, batch)


def _check_url(url: str) -> str:
    expected = "a URL such as https://example.com/hook, without a user name or password"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("url", repr(url), expected) from None
    host = parts.hostname
    is_plain = url.isascii() and url.isprintable() and " " not in url
    is_http = parts.scheme in ("http", "https") and "@" not in parts.netloc
    if not host or not (is_plain and is_http and port != 0):
        raise InputError("url", repr(url), expected)
    return host


def _is_private(host: str) -> bool:
    try:
        return not is_public(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return False


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
    """Signs messages as OpenAI does, in the Standard Webhooks scheme.

    OpenAI's client verifies them with `webhooks.unwrap`.

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
