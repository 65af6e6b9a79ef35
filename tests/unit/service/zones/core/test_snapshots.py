"""Snapshots of a zone: made when there is much to fold, and as good as the log."""

import asyncio
from pathlib import Path

from auctune.service.storage import Committer, EventLog, Snapshots, open_store
from auctune.service.zones.auction.state import AuctionModel
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.snapshots import Snapshotter, replay_until
from support.zone_player import assert_same
from support.zones import MadeUpZone


def test_a_snapshot_is_made_once_there_is_much_to_fold_and_gives_what_the_zone_remembers(
    tmp_path: Path,
) -> None:
    made = MadeUpZone()
    for number in range(5):
        made.zone.decide(made.bid(f"ftjob-{number}", "50"))
    made.keep()
    so_many = made.zone.state.seq

    with open_store(tmp_path) as store:
        snapshots, log = Snapshots(store.reader), EventLog(store.reader)

        def keep(events: int) -> AuctionModel:
            with Committer(store) as committer:
                actor = ZoneActor(made.zone, made.log)
                keeper = Snapshotter(actor, made.clock, snapshots, committer, events)
                asyncio.run(keeper.snapshot_if_due())
                actor.close()
            # The log of this store is empty: what is found is a snapshot's.
            memory, folded = replay_until("made-up", made.fresh, log, snapshots)
            assert folded == 0
            return memory

        assert keep(so_many + 1).seq == 0
        found = keep(so_many)
        # Numbers of the log that other zones, entries and files took do not count.
        made.zone.model.state.seq += 1_000_000
        with Committer(store) as committer:
            actor = ZoneActor(made.zone, made.log)
            again = Snapshotter(actor, made.clock, snapshots, committer, so_many + 1)
            asyncio.run(again.snapshot_if_due())
            actor.close()
        made.zone.model.state.seq -= 1_000_000
        restored, _ = replay_until("made-up", made.fresh, log, snapshots)
        assert (restored.seq, restored.num_applied) == (so_many, 0)
    assert found.state == made.zone.state
    assert_same(found.mechanism.save(), made.zone.mechanism.save())
