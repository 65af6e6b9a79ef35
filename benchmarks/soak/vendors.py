"""External vendors of the soaked service: an honest one, and one that breaks the protocol."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

from support.lying_vendor import Handler, Received, Write, answer, head, offer

HONEST, LIAR = "mender", "liar"

_FACTS = {"bytes": 40, "sha256": "0" * 64}
_STATES: tuple[dict[str, Any], ...] = (
    {"state": "accepted"},
    {"state": "failed", "reason": "no time"},
    {"state": "done", "result": _FACTS},
    {"state": "needs_data"},
    {"state": "perhaps"},
)


def liar(seed: int) -> Handler:
    """Answer with what is right, wrong, cut off or late, at random.

    Args:
        seed: of the answers.
    """
    draw = random.Random(f"{seed} liar")

    def choose(request: Received) -> Handler:
        if request.path.endswith("/quotes"):
            # So cheap that it wins, where it is believed.
            price = draw.choice(("0.0100", "0.0100", "0.0100", "-1", "much"))
            return answer(offer(price=price, delay_seconds=draw.choice((1, 4))))
        if request.method == "DELETE":
            return answer({})
        if request.path.endswith(("/data", "/report")):
            return answer(draw.choice((b"", b'{"prompt": "a", ', b"\x00" * 40)))
        return answer(draw.choice(_STATES), draw.choice((200, 200, 201, 500)))

    async def handle(request: Received, write: Write) -> None:
        how = draw.choices((choose(request), *_WRONG), (6, 1, 1, 1, 1))[0]
        await how(request, write)

    return handle


async def _hang(_request: Received, _write: Write) -> None:
    await asyncio.sleep(6)


async def _cut_off(_request: Received, write: Write) -> None:
    await write(head()[:20])


async def _garbage(_request: Received, write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n???")


async def _incomplete(_request: Received, write: Write) -> None:
    body = json.dumps(offer(price="0.0001")).encode()
    await write(head(extra=f"content-length: {len(body)}\r\n") + body[:-5])


_WRONG: tuple[Callable[..., Any], ...] = (_hang, _cut_off, _garbage, _incomplete)
