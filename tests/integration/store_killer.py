"""Kills processes that write to a store with SIGKILL and looks at what they leave behind.

A process of its own, run as `store_killer.py DATABASE ROUNDS SEED`: it forks its writers, which a
test process with threads must not do. Each writer goes on where the one before was killed. Prints
one JSON object a killed writer.
"""

import json
import os
import random
import select
import signal
import sys
from collections import Counter
from typing import Any

from auctune.service.storage import Committer, Store, WriteBatch, open_store
from auctune.service.storage.event_log import VERSION, checksum
from auctune.service.storage.tables import entries, events, jobs

NUM_WAITING = 40
NUM_ENTRIES = 4


def write_until_killed(database: str, acknowledged: int) -> None:
    """Jobs by job, so that some wait at any time; their numbers go to the pipe once written."""
    committer = Committer(open_store(database))
    for _ in range(NUM_WAITING):
        submit_job(committer, acknowledged)
    signal.pause()


def submit_job(committer: Committer, acknowledged: int) -> None:
    """Submit a job; once it is written, announce it and submit the next one."""
    seq = committer.next_seq(1 + NUM_ENTRIES)
    job = f"job{seq}"
    shared: dict[str, Any] = {"job": job, "at": 0.0}
    event = {"seq": seq, "zone": "z", "slot": 0, "type": "t", "body": b"x" * 2000, **shared}
    event["version"] = VERSION
    amounts = [-seq, seq, 5, -5]

    def done(error: Exception | None) -> None:
        assert error is None
        announce(acknowledged, seq)
        submit_job(committer, acknowledged)

    committer.submit(
        WriteBatch(done)
        .insert(events, {**event, "checksum": checksum(**event)})
        .upsert(
            jobs,
            {
                "id": job,
                "seq": seq,
                "zone": "z",
                "owner": "o",
                "created_at": 0.0,
                "status": "queued",
                "body": b"y" * 1000,
            },
        )
        .insert(
            entries,
            *(
                {**shared, "id": seq + 1 + number, "seq": seq, "account": "a", "amount": amount}
                for number, amount in enumerate(amounts)
            ),
        )
    )


def announce(acknowledged: int, seq: int) -> None:
    os.write(acknowledged, seq.to_bytes(8, "big"))


def look(store: Store, announced: set[int]) -> dict[str, int]:
    """How many units are there, are there in part only, and were announced but are not there."""
    with store.reader.connect() as connection:
        found = set(connection.execute(events.select().with_only_columns(events.c.seq)).scalars())
        of_jobs = set(connection.execute(jobs.select().with_only_columns(jobs.c.seq)).scalars())
        sides = Counter(
            connection.execute(entries.select().with_only_columns(entries.c.seq)).scalars()
        )
    whole = {seq for seq in found & of_jobs if sides[seq] == NUM_ENTRIES}
    return {
        "announced": len(announced),
        "whole": len(whole),
        "in_part": len((found | of_jobs | sides.keys()) - whole),
        "lost": len(announced - whole),
    }


def main(database: str, rounds: int, seed: int) -> None:
    open_store(database).close()
    draw = random.Random(seed)
    announced: set[int] = set()
    for _ in range(rounds):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            write_until_killed(database, writer)
        os.close(writer)
        announced.add(int.from_bytes(os.read(reader, 8), "big"))
        # Waits for nothing: goes on reading until the time is up.
        for _ in range(draw.randrange(1, 6)):
            if select.select([reader], [], [], 10.0)[0]:
                announced |= numbers(os.read(reader, 8 * NUM_WAITING))
        select.select([], [], [], draw.uniform(0, 0.01))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while more := os.read(reader, 65536):
            announced |= numbers(more)
        os.close(reader)
        with open_store(database) as store:
            print(json.dumps(look(store, announced)), flush=True)


def numbers(read: bytes) -> set[int]:
    assert len(read) % 8 == 0
    return {int.from_bytes(read[at : at + 8], "big") for at in range(0, len(read), 8)}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
