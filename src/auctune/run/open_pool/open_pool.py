"""A standing pool at work: follows what is wanted, and trains a unit of time after the other."""

import time
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from auctune.atomic_files import remove_folder
from auctune.domain import AuctuneError, InputError
from auctune.run.child.messages import error_record
from auctune.run.event_log import EventLog, EventRecord
from auctune.run.open_pool.best import BestKept
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.how import How
from auctune.run.open_pool.open_thread import OpenThread, ThreadShop
from auctune.run.open_pool.pace import LaterPace, unit_now
from auctune.run.open_pool.pool_params import OpenPoolParams
from auctune.run.open_pool.state import VERSION, Member, OpenPoolState
from auctune.run.open_pool.term import TermRecord, bundle_events
from auctune.run.open_pool.wanted import Wanted, WantedThread, Wish
from auctune.run.timeshare.failures import ThreadFailedError, named_failures
from auctune.run.timeshare.foresight import ThreadView
from auctune.run.timeshare.job import hand_out
from auctune.run.timeshare.keeping import Keeping, KeepingEach, bring_back
from auctune.run.timeshare.order import PoolOrder, PoolThread
from auctune.run.timeshare.pace import Pace
from auctune.run.timeshare.pool import Pool, check_room
from auctune.run.timeshare.runner import Parts, Runner
from auctune.run.timeshare.state import PoolState, UnitRecord

# Share of a unit that threads which join may take of those that are there.
_JOIN_SHARE = 0.5


class HearPool(Protocol):
    """Told of everything that is on record, in its order."""

    def __call__(self, number: int, event: EventRecord, views: Sequence[ThreadView]) -> None:
        """An event of the journal.

        Args:
            number: of the event.
            event: itself.
            views: of a unit's threads after it.
        """
        ...


class OpenPool:
    """One pool.

    Args:
        params: how it is run.
        shop: makes its threads.
        pace: tells which unit it is.
        place: its folder, which is this pool's alone.
        journal: of the folder.
        hear: told what happens from now on.
        now: seconds by a clock that only goes forward.
    """

    def __init__(
        self,
        params: OpenPoolParams,
        shop: ThreadShop,
        pace: Pace,
        place: OpenPoolFolder,
        journal: EventLog,
        hear: HearPool,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._params, self._shop, self._place, self._journal = params, shop, place, journal
        self._hear, self._now = hear, now
        self._best = BestKept(place)
        self.state = OpenPoolState.fold(journal.events)
        self._pace = LaterPace(pace, lambda: self.state.last)
        self._threads: dict[str, OpenThread] = {}
        self._keepings: dict[str, Keeping] = {}
        self._runner: Runner | None = None
        self._pool: Pool | None = None

    def take_up(self) -> None:
        """Make all members anew, and bring them to where the journal says that they are.

        Raises:
            InputError: if the journal is of another release.
        """
        if not self._journal.events:
            name = self._params.allocator.name
            self._happen({"type": "begun", "version": VERSION, "allocator": name})
        version = self._journal.events[0]["version"]
        if version != VERSION:
            found = f"{version}, of another release"
            raise InputError(f"{self._place.event_log}: version", found, f"{VERSION}")
        self._drop_leftovers()
        for name, member in list(self.state.members.items()):
            self._best.drop_ahead(member)
            try:
                note = self._bring_back(name, member)
            except AuctuneError as error:
                self._leave(name, How.BROKEN, str(error))
                continue
            if note:
                self._happen({"type": "noted", "id": name, "text": note})

    def follow(self, wanted: Wanted) -> bool:
        """Have those join and leave that are to, from the next unit on.

        Threads join one after another, for a share of a unit at most: those that are there train
        between. False if some are still to join, by another call.
        """
        self._see_off()
        for name in list(self.state.members):
            if name not in wanted:
                self._leave(name, How.DROPPED)
            elif wanted[name].wish is Wish.END:
                self._leave(name, How.ENDED)
        unit_seconds = self._params.unit_seconds
        begun, num_joined = self._now(), 0
        for name, one in wanted.items():
            if name in self.state.gone:
                continue
            if name not in self.state.members:
                seconds = self._now() - begun
                if num_joined and unit_seconds and seconds > _JOIN_SHARE * unit_seconds:
                    return False
                self._join(one)
                num_joined += 1
            if name in self.state.members:
                self._rest(name, is_resting=one.wish is Wish.REST)
        return True

    def run_unit(self) -> bool:
        """Train the next unit; false if nobody is there to learn in it."""
        self._see_off()
        if not self.state.present:
            return False
        if self._runner is None:
            self._runner = self._begin_term()
        try:
            has_run = self._runner.run_next()
        except ThreadFailedError as error:
            self._break(error)
        names = self.state.present
        for place, why in self._runner.too_slow.items():
            # One that reached its target in batches before that one leaves as such.
            if not self.state.members[names[place]].is_done:
                self._leave(names[place], How.SLOW, why)
        self._see_off()
        return has_run

    def _break(self, error: ThreadFailedError) -> NoReturn:
        """The thread goes; what others did in the unit is not on record, so all is taken up anew.

        Raises:
            ThreadFailedError: always.
        """
        self._leave(error.thread, How.BROKEN, str(error))
        raise error

    def _see_off(self) -> None:
        """Those that are done, and those whose time is over, leave."""
        unit = unit_now(self._pace, self.state.last)
        for name, member in list(self.state.members.items()):
            if member.is_done:
                self._leave(name, How.REACHED)
            elif member.learning.deadline <= unit:
                self._leave(name, How.MISSED)

    def _rest(self, name: str, *, is_resting: bool) -> None:
        if self.state.members[name].is_resting != is_resting:
            self._happen({"type": "rested" if is_resting else "roused", "id": name})
            self._runner = None

    def _join(self, wanted: WantedThread) -> None:
        name = wanted.id
        unit = unit_now(self._pace, self.state.last)
        if wanted.wish is Wish.END or wanted.deadline <= unit:
            how = How.ENDED if wanted.wish is Wish.END else How.MISSED
            self._happen({"type": "left", "id": name, "how": how.value, "why": "", "best": None})
            return
        begun = self._now()
        try:
            memory = self._make(wanted)
        except (AuctuneError, OSError) as error:
            self._refuse(name, error)
            return
        self._happen(
            {
                "type": "joined",
                "id": name,
                "time": unit,
                "deadline": wanted.deadline,
                "threshold": wanted.threshold,
                "lasting": wanted.lasting,
                "rate": wanted.batches_per_unit,
                "memory": memory,
                "seconds": self._now() - begun,
            }
        )
        self._runner = None

    def _make(self, wanted: WantedThread) -> int:
        """Make a new thread; returns its bytes. Nothing is trained before its first unit."""
        name, params = wanted.id, self._params
        with named_failures(name, "while it was made"):
            thread = self._shop.make(name, wanted.lasting)
            self._threads[name] = thread
            memory = thread.memory_bytes
        check_room([name], [memory], params.memory_bytes)
        self._house(name, thread)
        return memory

    def _refuse(self, name: str, error: AuctuneError | OSError) -> None:
        if name in self._threads:
            self._let_go(name)
        known = error if isinstance(error, AuctuneError) else AuctuneError(str(error))
        self._happen({"type": "refused", "id": name, **error_record(known)})

    def _bring_back(self, name: str, member: Member) -> str:
        """A member's thread, made anew; what its owner should know."""
        with named_failures(name, "while it was taken up"):
            thread = self._shop.make(name, member.lasting)
            self._threads[name] = thread
            units = self.state.units_of(name)
            note = bring_back(thread, self._place.checkpoints(name), units)
        self._house(name, thread)
        return note

    def _house(self, name: str, thread: OpenThread) -> None:
        folder, every = self._place.checkpoints(name), self._params.saved_every
        self._keepings[name] = Keeping([thread], [folder], every)
        if self._params.memory_bytes is not None:
            thread.suspend()

    def _leave(self, name: str, how: How, why: str = "") -> None:
        member = self.state.members[name]
        try:
            has_result = self._hand_out(name, member, how)
        except AuctuneError as error:
            self._happen({"type": "noted", "id": name, "text": str(error)})
            has_result = False
        best = None
        if member.best is not None and has_result:
            best = {"batches": member.best[0], "loss": member.best[1]}
        self._happen({"type": "left", "id": name, "how": how.value, "why": why, "best": best})
        if name in self._threads:
            self._let_go(name)
        for folder in (self._place.checkpoints(name), self._place.best(name)):
            remove_folder(folder)
        self._runner = None

    def _hand_out(self, name: str, member: Member, how: How) -> bool:
        """Put what a thread has learned into its place; whether it has learned anything."""
        if how in (How.DROPPED, How.BROKEN):
            return False
        if how is How.REACHED and self._place.result(name).exists():
            return True
        thread = self._threads[name]
        thread.resume()
        if how is not How.REACHED and not self._best.bring(member, thread):
            return False
        hand_out(thread, self._place.result(name))
        return True

    def _let_go(self, name: str) -> None:
        # Those that are emptied cannot be taken apart.
        self._threads.pop(name).resume()
        self._keepings.pop(name, None)
        self._shop.let_go(name)

    def _begin_term(self) -> Runner:
        """A bundle of those who are there now, as it stands."""
        params, names = self._params, self.state.present
        members = [self.state.members[name] for name in names]
        threads = [self._threads[name] for name in names]
        if params.memory_bytes is not None:
            for thread in self._threads.values():
                thread.suspend()
        order = PoolOrder(
            threads=[
                PoolThread(one.learning, thread_is_made, one.lasting, one.rate) for one in members
            ],
            allocator=params.allocator,
            estimator=params.estimator,
            unit_seconds=params.unit_seconds,
            memory_bytes=params.memory_bytes,
            cpu_threads=params.cpu_threads,
        )
        record = TermRecord(
            names, bundle_events(self.state, names), self._put_on_record, self._learned
        )
        pool = Pool(threads, names, [one.memory for one in members], params.memory_bytes)
        if self._pool is not None:
            pool.switching = self._pool.switching
        self._pool = pool
        parts = Parts(
            order=order,
            threads=threads,
            state=PoolState.fold(order.learning, record.events),
            journal=record,
            pool=pool,
            keeping=KeepingEach([self._keepings[name] for name in names]),
            pace=self._pace,
            listener=self,
            finished=lambda place: hand_out(threads[place], self._place.result(names[place])),
            now=self._now,
        )
        runner = Runner(parts)
        runner.begin()
        return runner

    def _put_on_record(self, event: EventRecord) -> None:
        """A unit, once the best of its threads are on disk."""
        assert self._pool is not None
        names = event["names"]
        for place, (batches, loss) in enumerate(
            zip(event["batches"], event["losses"], strict=True)
        ):
            member = self.state.members[names[place]]
            if self._best.is_better(member, batches, loss):
                self._pool.enter(place, ())
                self._best.keep(member, batches, self._threads[names[place]])
        self._journal.append(event)
        self.state.apply(event)

    def unit_done(self, unit: UnitRecord, views: Sequence[ThreadView]) -> None:
        """Of the term's runner: a unit is on record."""
        self._hear(len(self._journal.events), self._journal.events[-1], views)

    def noted(self, text: str) -> None:
        """Of the term's runner, which notes nothing while it runs."""

    def _learned(self, name: str) -> tuple[int, int]:
        return self._threads[name].learned

    def _happen(self, event: EventRecord) -> None:
        self._journal.append(event)
        self.state.apply(event)
        self._hear(len(self._journal.events), event, ())

    def _drop_leftovers(self) -> None:
        """Checkpoints of threads that left as the pool was killed, or never joined."""
        for parent in (self._place.state / "threads", self._place.state / "best"):
            for folder in list(parent.iterdir()) if parent.is_dir() else ():
                if folder.name not in self.state.members:
                    remove_folder(folder)


def thread_is_made() -> NoReturn:
    """In place of what makes a thread: those of a term are there."""
    raise AssertionError("a thread of a term was made already")
