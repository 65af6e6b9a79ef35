"""A pool that threads join and leave is a bundle between the changes, and no kill changes it."""

from pathlib import Path

import numpy as np
import pytest

from auctune.run.journal import JournalEvent
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.pool_params import OpenPoolParams
from auctune.run.open_pool.wanted import Wanted, WantedThread, Wish
from auctune.run.timeshare.failures import ThreadFailedError
from auctune.run.timeshare.job import run_pool
from auctune.run.timeshare.order import PoolOrder
from auctune.timeshare.balancing.exploration import Exploration
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner, headway
from support.open_pools import Heard, LineShop, play_pool
from support.pool_threads import make_line, pool_thread

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


def units(events: list[JournalEvent]) -> list[JournalEvent]:
    return [event for event in events if event["type"] == "unit"]


def endings(events: list[JournalEvent]) -> dict[str, str]:
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
    found: list[JournalEvent] | None = None
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


def without_clock(events: list[JournalEvent]) -> str:
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
        def make(self, thread: str, lasting: object) -> object:  # type: ignore[override]
            made = super().make(thread, lasting)  # type: ignore[arg-type]
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
