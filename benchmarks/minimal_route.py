"""A minimal durable FastAPI route: the baseline of `auctune serve` in service_load.py.

    python benchmarks/minimal_route.py --data FOLDER

uvicorn with uvloop and httptools, one POST route that parses its JSON body, writes it as one row
through the service's `Committer` (group commit, SQLite with WAL and `synchronous=FULL`), and
responds when the row is on disk. No keys, no market, no ledger. Prints `serves at 127.0.0.1:PORT`.
"""

import argparse
import asyncio
import json
import socket
import time
from collections import deque
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI

from auctune.service.storage import Committer, WriteBatch, open_store
from auctune.service.storage.event_log import VERSION, checksum
from auctune.service.storage.tables import events


def make_app(committer: Committer) -> FastAPI:
    """Return an app with one route, at the path of the service's, which takes the same requests."""
    app = FastAPI()
    results: deque[tuple[asyncio.Future[None], Exception | None]] = deque()

    def resolve() -> None:
        while results:
            committed, error = results.popleft()
            if error is None:
                committed.set_result(None)
            else:
                committed.set_exception(error)

    @app.post("/v1/fine_tuning/jobs")
    async def write_row(body: dict[str, Any]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        committed: asyncio.Future[None] = loop.create_future()

        def done(error: Exception | None) -> None:
            results.append((committed, error))
            # Wake the event loop once for all rows of a commit.
            if len(results) == 1:
                loop.call_soon_threadsafe(resolve)

        seq = committer.next_seq()
        row: dict[str, Any] = {
            "seq": seq,
            "zone": "minimal",
            "slot": 0,
            "type": "row",
            "job": f"row-{seq}",
            "at": time.time(),
            "body": json.dumps(body).encode(),
            "version": VERSION,
        }
        row["checksum"] = checksum(**row)
        committer.submit(WriteBatch(done).insert(events, row))
        await committed
        return {"id": f"row-{seq}", "decision": None, "payment": None}

    return app


async def serve(data: Path) -> None:
    """Serve until the process ends."""
    data.mkdir(parents=True, exist_ok=True)
    with (
        open_store(data) as store,
        Committer(store) as committer,
        socket.create_server(("127.0.0.1", 0), backlog=2048) as listening,
    ):
        config = uvicorn.Config(
            make_app(committer),
            http="httptools",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        print(f"serves at 127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the database")
    data = parser.parse_args().data
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(data))


if __name__ == "__main__":
    main()
