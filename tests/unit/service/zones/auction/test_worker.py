"""What a zone has done for its jobs beside their slots."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from auctune.engine.data.client import MEDIUM_BYTES, DataClient, tokens_folder
from auctune.service.datasets.training_data import DatasetInspector
from auctune.service.files.blobs import Blobs
from auctune.service.zones.auction.worker import AuctionWorker
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.worker import DataDirs
from support.zones import MadeUpZone


def test_the_tokens_of_an_admitted_jobs_data_are_stored_once_and_bad_data_hold_up_nothing(
    tmp_path: Path,
) -> None:
    made = MadeUpZone(num_nodes=1)
    for name in ("a", "b"):
        made.zone.decide(made.bid(name, "100", rows=40, slots=9, share=0.25))
    job = made.zone.state.jobs["a"]
    blobs = Blobs(tmp_path)
    rows = json.dumps({"text": "rain " * 20}) + "\n"
    path = blobs.path(job.training.data)
    path.write_text("no row\n" * MEDIUM_BYTES)

    library = SimpleNamespace(blobs=blobs)
    client = DataClient(tmp_path / "cache", module="support.word_data")
    inspector = DatasetInspector("tiny", client, cast(Any, library))

    none: Any = None
    dependencies = SimpleNamespace(
        store=SimpleNamespace(reader=None),
        dirs=DataDirs(tmp_path, tmp_path),
        committer=None,
        files=library,
        data=client,
        lock=None,
        on_fatal_error=none,
    )
    actor = ZoneActor(made.zone, made.log)

    async def ticks(count: int) -> None:
        worker = AuctionWorker(
            actor, made.clock, none, tmp_path, inspector, none, cast(Any, dependencies)
        )
        for _ in range(count):
            await worker._prepare_data()
            # All that was begun, however it ends.
            await asyncio.gather(*worker._tasks._tasks)

    try:
        asyncio.run(ticks(2))
        assert not tokens_folder(path).exists()
        path.write_text(rows * (MEDIUM_BYTES // len(rows) + 1))
        asyncio.run(ticks(2))
        stored = [one.name for one in tokens_folder(path).iterdir()]
        assert stored == [str(job.training.max_length)]
    finally:
        actor.close()
        client.close()
