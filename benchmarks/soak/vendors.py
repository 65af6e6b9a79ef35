"""Who mends data for the market that is soaked: an honest vendor, and one that lies."""

import asyncio
import json
import random
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from auctune.service.vendors import Secret
from soak.site import SECRET
from support.lying_vendor import Asked, Lie, Write, answer, offer, signed_head

HONEST, LIAR = "mender", "liar"

_FACTS = {"bytes": 40, "sha256": "0" * 64}
_STATES: tuple[dict[str, Any], ...] = (
    {"state": "accepted"},
    {"state": "failed", "reason": "no time"},
    {"state": "done", "result": _FACTS},
    {"state": "needs_data"},
    {"state": "perhaps"},
)


def liar(seed: int) -> Lie:
    """Answers that are right, wrong, forged, cut off or late, as it happens.

    Args:
        seed: of what it says.
    """
    draw, secret = random.Random(f"{seed} liar"), Secret(SECRET)

    def told(asked: Asked) -> Lie:
        if asked.path.endswith("/quotes"):
            # So cheap that it wins, where it is believed.
            price = draw.choice(("0.0100", "0.0100", "0.0100", "-1", "much"))
            return answer(secret, offer(price=price, delay_seconds=draw.choice((1, 4))))
        if asked.method == "DELETE":
            return answer(secret, {})
        if asked.path.endswith(("/data", "/report")):
            return answer(secret, draw.choice((b"", b'{"prompt": "a", ', b"\x00" * 40)))
        return answer(secret, draw.choice(_STATES), draw.choice((200, 200, 201, 500)))

    async def lie(asked: Asked, write: Write) -> None:
        how = draw.choices((told(asked), *_WRONG), (6, 1, 1, 1, 1))[0]
        await how(asked, write)

    return lie


async def _hang(_asked: Asked, _write: Write) -> None:
    await asyncio.sleep(6)


async def _cut_off(asked: Asked, write: Write) -> None:
    digest = sha256(b"").hexdigest()
    await write(signed_head(Secret(SECRET), asked, digest)[:40])


async def _garbage(_asked: Asked, write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n???")


async def _forged(asked: Asked, write: Write) -> None:
    body = json.dumps(offer(price="0.0001")).encode()
    head = signed_head(Secret("f" * 40), asked, sha256(body).hexdigest())
    await write(head + body)


_WRONG: tuple[Callable[..., Any], ...] = (_hang, _cut_off, _garbage, _forged)
