"""A pool that threads join and leave is a bundle between the changes, and no kill changes it.

One of its threads cannot hold it up for the others, and pays for the time that it takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.run.event_log import EventLog, EventRecord
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.lora_shop import LoraShop
from auctune.run.open_pool.open_pool import OpenPool
from auctune.run.open_pool.open_thread import ThreadShop
from auctune.run.open_pool.pool_params import OpenPoolParams
from auctune.run.open_pool.wanted import Wanted, WantedThread, Wish
from auctune.run.timeshare.failures import ThreadFailedError
from auctune.run.timeshare.job import run_pool
from auctune.run.timeshare.order import PoolOrder
from auctune.run.timeshare.pace import WallPace
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.baselines import Uniform
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner, headway
from auctune.train.preemptible import LoraJobFactory, StepTooLongError
from support.open_pools import Heard, LineShop, play_pool
from support.pool_threads import ReadingLine, make_line, pool_thread
from support.small_bases import build_base, write_rows

pytest_plugins = ["support.one_thread"]

LARA = Planner(balancing=Exploration(batches=12))
PARAMS = OpenPoolParams(LARA, Wls(), saved_every=0.0)


def wanted(
    name: str, seed: int, deadline: int, threshold: float, wish: Wish = Wish.LEARN
) -> WantedThread:
    return WantedThread(name, deadline, threshold, {"seed": seed}, 10.0, wish)


QUICK = wanted("quick", 1, 12, 0.5)
SLOW = wanted("slow", 2, 16, 0.05)
LATE = wanted("late", 3, 18, 0.3)
HOPELESS = wanted("hopeless", 4, 10, 1e-6)


def of(*threads: WantedThread) -> Wanted:
    return {thread.id: thread for thread in threads}


def joining(unit: int) -> Wanted:
    """One joins at unit 5, and nobody is sent off."""
    return of(QUICK, SLOW, HOPELESS, *([LATE] if unit >= 5 else []))


def moving(unit: int) -> Wanted:
    """Threads come, rest, are ended and dropped."""
    slow = wanted("slow", 2, 16, 0.05, Wish.REST if 3 <= unit < 7 else Wish.LEARN)
    late = [wanted("late", 3, 18, 0.01, Wish.END if unit >= 14 else Wish.LEARN)]
    return of(slow, *([QUICK] if unit < 4 else []), *(late if unit >= 2 else []))


def units(events: list[EventRecord]) -> list[EventRecord]:
    return [event for event in events if event["type"] == "unit"]


def endings(events: list[EventRecord]) -> dict[str, str]:
    return {event["id"]: str(event["how"]) for event in events if event["type"] == "left"}


@pytest.mark.parametrize("allocator", [LARA, headway()], ids=["lara", "headway"])
def test_threads_that_join_are_a_bundle_with_later_starts(
    allocator: Planner, tmp_path: Path
) -> None:
    threads = [
        pool_thread("quick", deadline=12, threshold=0.5, seed=1),
        pool_thread("slow", deadline=16, threshold=0.05, seed=2),
        pool_thread("hopeless", deadline=10, threshold=1e-6, seed=4),
        pool_thread("late", start=5, deadline=18, threshold=0.3, seed=3),
    ]
    names = [thread.learning.id for thread in threads]
    bundle = run_pool(PoolOrder(threads, allocator, Wls()), tmp_path / "bundle").outcome
    found = play_pool(OpenPoolParams(allocator, Wls()), tmp_path / "open", joining)
    assert len(units(found)) == len(bundle.shares)
    for unit in units(found):
        places = [names.index(name) for name in unit["names"]]
        assert np.allclose(bundle.shares[unit["time"]][places], unit["shares"], atol=1e-12)
        losses = bundle.losses[unit["time"]][places]
        assert np.allclose(losses, unit["losses"], equal_nan=True)
    ended = endings(found)
    assert [ended[name] == "reached" for name in names] == bundle.done.tolist()


@pytest.mark.parametrize("memory", [140, None])
def test_a_pool_that_is_killed_at_any_moment_goes_on_to_the_same_end(
    memory: int | None, tmp_path: Path
) -> None:
    params = OpenPoolParams(LARA, Wls(), memory_bytes=memory, saved_every=0.0)
    whole = play_pool(params, tmp_path / "whole", moving)
    found: list[EventRecord] | None = None
    kills = 0
    while found is None:
        # In the middle of a unit, or as something was put on record and nobody has heard of it.
        shop, heard = LineShop(12 + 3 * kills), Heard(5 + kills if kills % 2 else 10**9)
        try:
            found = play_pool(params, tmp_path / "run", moving, shop, heard)
        except KeyboardInterrupt:
            kills += 1
    assert kills > 3
    assert without_clock(found) == without_clock(whole)
    assert endings(found) == {"quick": "dropped", "slow": "missed", "late": "ended"}
    for name in ("slow", "late"):
        one, two = (OpenPoolFolder(tmp_path / root).result(name) for root in ("run", "whole"))
        file = "model.safetensors"
        assert (one / file).read_bytes() == (two / file).read_bytes()
    assert not OpenPoolFolder(tmp_path / "run").result("quick").exists()
    assert not [*(tmp_path / "run" / "state" / "threads").iterdir()]


def without_clock(events: list[EventRecord]) -> str:
    """Events but for what the clock of the machine says, as text, in which NaN equals itself."""
    return "\n".join(
        str({key: value for key, value in event.items() if key != "seconds"}) for event in events
    )


def test_what_is_handed_out_is_the_unit_with_the_least_loss(tmp_path: Path) -> None:
    found = play_pool(PARAMS, tmp_path, lambda unit: of(wanted("late", 3, 24, 1e-9)))
    (left,) = [event for event in found if event["type"] == "left"]
    seen = [(unit["losses"][0], unit["learned"][0]) for unit in units(found)]
    loss, (rows, _) = min(seen)
    assert left["best"] == {"batches": rows // 4, "loss": loss}
    # Not the last one, or this would show nothing.
    assert seen[-1][0] > loss
    alone = make_line(3)
    alone.step(rows // 4)
    (tmp_path / "alone").mkdir()
    alone.save_result(tmp_path / "alone")
    handed = OpenPoolFolder(tmp_path).result("late") / "model.safetensors"
    assert handed.read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()


def test_who_cannot_join_is_refused_and_nobody_else_is_kept_from_learning(tmp_path: Path) -> None:
    broken = WantedThread("broken", 9, 0.1, {}, 10.0)
    params = OpenPoolParams(LARA, Wls(), memory_bytes=140)
    shop = LineShop()
    found = play_pool(params, tmp_path, lambda unit: of(broken, QUICK), shop)
    (refused,) = [event for event in found if event["type"] == "refused"]
    assert refused["id"] == "broken"
    assert "KeyError" in refused["found"]
    assert endings(found) == {"quick": "reached"}
    small = OpenPoolParams(LARA, Wls(), memory_bytes=30)
    (_, refused) = play_pool(small, tmp_path / "small", lambda unit: of(QUICK))
    assert refused["place"] == "memory"
    assert not shop.there


def test_a_thread_whose_code_fails_leaves_and_the_others_are_taken_up(tmp_path: Path) -> None:
    class Failing(LineShop):
        def make(self, thread: str, lasting: Mapping[str, Any]) -> ReadingLine:
            made = super().make(thread, lasting)
            step, turns = made.step, iter(range(4))

            def failing(batches: int) -> float:
                if thread == "slow" and next(turns, None) is None:
                    raise ValueError("no more")
                return step(batches)

            made.step = failing  # type: ignore[method-assign]
            return made

    with pytest.raises(ThreadFailedError, match="slow failed in unit"):
        play_pool(PARAMS, tmp_path, lambda unit: of(QUICK, SLOW), Failing())
    found = play_pool(PARAMS, tmp_path, lambda unit: of(QUICK, SLOW))
    assert endings(found) == {"slow": "broken", "quick": "reached"}
    assert [unit["time"] for unit in units(found)] == list(range(len(units(found))))


def test_whoever_comes_too_late_was_never_there(tmp_path: Path) -> None:
    def script(unit: int) -> Wanted:
        return of(SLOW, *([wanted("past", 5, 3, 0.1)] if unit >= 4 else []))

    found = play_pool(PARAMS, tmp_path, script)
    assert endings(found)["past"] == "missed"
    assert all("past" not in unit["names"] for unit in units(found))


@dataclass
class Hand:
    """A clock that goes on when it is told to."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


class SlowShop(LineShop):
    """Makes lines that take the seconds a batch, and to load, that are on record."""

    MOST = 4.0

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self._hand = hand

    def make(self, thread: str, lasting: Mapping[str, Any]) -> ReadingLine:
        made = super().make(thread, lasting)
        step = made.step
        self._hand.wait(lasting["load"])

        def slow(batches: int) -> float:
            self._hand.wait(min(batches * lasting["batch"], self.MOST))
            if lasting["batch"] > self.MOST:
                raise StepTooLongError("stopped")
            return step(batches)

        made.step = slow  # type: ignore[method-assign]
        return made


def run_timed(root: Path, shop: ThreadShop, hand: Hand, wanted: Wanted, most: float) -> list[Any]:
    """A pool in units of a second; all its events up to a moment."""
    place = OpenPoolFolder(root)
    journal = EventLog(place.event_log)
    try:
        params = OpenPoolParams(Uniform(), Wls(), unit_seconds=1.0)
        pace = WallPace(1.0, hand, hand.wait)
        pace.start(0.0)
        pool = OpenPool(params, shop, pace, place, journal, Heard(), now=hand)
        pool.take_up()
        while hand() < most:
            pool.follow(wanted)
            pool.run_unit()
        return list(journal.events)
    finally:
        journal.close()


def seconds_of(name: str, events: list[EventRecord]) -> float:
    """All that the pool spent on a thread, by its journal."""
    spent = sum(e["seconds"] for e in events if e["type"] == "joined" and e["id"] == name)
    for unit in units(events):
        if name in unit["names"]:
            spent += unit["seconds"][unit["names"].index(name)]
    return float(spent)


@pytest.mark.parametrize("batch", [0.9, 50.0], ids=["slow", "stuck"])
def test_a_thread_that_is_slower_than_it_says_takes_its_share_and_pays_for_it(
    batch: float, tmp_path: Path
) -> None:
    hand = Hand()

    def of_speed(name: str, seconds: float, load: float) -> WantedThread:
        lasting = {"seed": 1, "batch": seconds, "load": load}
        return WantedThread(name, 90, 1e-9, lasting, 10.0)

    wanted = of(of_speed("bob", 0.1, 0.0), of_speed("alice", batch, 2.0))
    events = run_timed(tmp_path, SlowShop(hand), hand, wanted, 60.0)
    bob, alice = seconds_of("bob", events), seconds_of("alice", events)
    # Nothing is free, loading her included, and the pool idles for no more than parts of units.
    assert bob + alice >= 0.9 * hand()
    assert bob >= 0.4 * hand()
    trained = [unit["batches"][unit["names"].index("bob")] for unit in units(events)]
    assert all(one + other > 0 for one, other in pairwise(trained))
    if batch > SlowShop.MOST:
        assert endings(events) == {"alice": "slow"}
        assert alice == 2.0 + SlowShop.MOST
    else:
        assert not endings(events)


def test_a_thread_that_reached_its_target_before_a_batch_that_was_stopped_has_reached_it(
    tmp_path: Path,
) -> None:
    stopped = []

    class Stopping(LineShop):
        def make(self, thread: str, lasting: Mapping[str, Any]) -> ReadingLine:
            made = super().make(thread, lasting)
            step, losses = made.step, list[float]()

            def stopping(batches: int) -> float:
                if losses:
                    stopped.append(thread)
                    raise StepTooLongError("stopped")
                losses.append(step(batches))
                return losses[0]

            made.step = stopping  # type: ignore[method-assign]
            return made

    found = play_pool(PARAMS, tmp_path, lambda unit: of(wanted("easy", 1, 12, 1e9)), Stopping())
    assert stopped == ["easy"]
    assert endings(found) == {"easy": "reached"}


def test_a_batch_of_an_adapter_that_takes_too_long_ends_its_job_and_no_other(
    tmp_path: Path,
) -> None:
    data = write_rows(tmp_path / "data.jsonl", 12, seed=1).name
    lasting = {"data": data, "rank": 2, "max_length": 24}
    small = WantedThread("bob", 9, 1e-9, {**lasting, "batch_size": 2}, 10.0)
    large = WantedThread("alice", 90, 1e-9, {**lasting, "batch_size": 12}, 10.0)
    # With no time at all for a batch, any of more than four rows is late.
    shop = LoraShop(LoraJobFactory(build_base(tmp_path / "base", "gpt2"), 0.0), tmp_path)
    found = play_pool(PARAMS, tmp_path / "pool", lambda unit: of(small, large), shop)
    assert endings(found) == {"alice": "slow", "bob": "missed"}
    first = units(found)[0]
    assert first["batches"][first["names"].index("alice")] == 0
    assert first["seconds"][first["names"].index("alice")] > 0
    assert all(unit["batches"][unit["names"].index("bob")] for unit in units(found))
    assert OpenPoolFolder(tmp_path / "pool").result("bob").exists()
    assert not OpenPoolFolder(tmp_path / "pool").result("alice").exists()


def test_those_that_join_leave_time_to_those_that_are_there(tmp_path: Path) -> None:
    hand = Hand()
    lasting = {"seed": 1, "batch": 0.1, "load": 0.4}
    names = [f"thread-{number}" for number in range(20)]
    wanted = {name: WantedThread(name, 90, 1e-9, lasting, 10.0) for name in names}
    events = run_timed(tmp_path, SlowShop(hand), hand, wanted, 30.0)
    kinds = [event["type"] for event in events]
    assert kinds.count("joined") == 20
    # 0.4 s each: two of them take more than half a unit.
    assert "joined joined joined" not in " ".join(kinds)
