"""Slots of jobs through their crews, side by side; and what goes wrong in one."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auctune.edge.decision import SlotPlan
from auctune.run.edge.actors import SlotResult
from auctune.run.edge.crew import Crew, SlotWork, total
from auctune.run.edge.resources import site_resource
from auctune.run.edge.room import room_of_nodes
from auctune.run.edge.trouble import TroubleError, in_words, is_passing, root_of, troubles

_LOOK_SECONDS = 0.5
# A node that is gone is known to be so by then, if Ray was told to look often.
_NOTICE_SECONDS = 5.0
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Finished:
    """A job's slot that was trained."""

    job: str
    result: SlotResult
    chunks: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Torn:
    """A job's slot that came to nothing.

    Attributes:
        job: whose.
        why: for its owner.
        failed: whether something went wrong; else a site is gone, or its time is over.
        out_of_memory: whether it was for want of memory, as far as that is known.
    """

    job: str
    why: str
    failed: bool = True
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that fails again and again at sites that are there, and why."""

    job: str
    why: str


@dataclass(slots=True)
class _Attempt:
    """At a job's slot.

    Attributes:
        work: what is to be done.
        result, fetched: refer to what `Crew.start` says.
        number: of attempts, with this one.
        failed: what it ended with; none: it goes on.
        num_sites: that were there when it failed.
        noticed_by: when a site that is gone is known to be.
    """

    work: SlotWork
    result: Any
    fetched: list[Any]
    number: int = 1
    failed: Exception | None = None
    num_sites: int = 0
    noticed_by: float = 0.0


def sites_alive() -> set[str]:
    """Sites that have a node."""
    import ray

    prefix = site_resource("")
    return {
        name.removeprefix(prefix)
        for node in ray.nodes()
        if node["Alive"]
        for name in node["Resources"]
        if name.startswith(prefix)
    }


def _last_words(error: Exception) -> str:
    """What an actor's call ended with, in one line."""
    error = root_of(error)
    # Of an actor that could not be made, Ray's words are its whole trace: its last line says why.
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"


def _never(_job: str) -> bool:
    """A slot lasts as long as the work in it."""
    return False


def _nothing() -> None:
    """There is nothing to be done meanwhile."""


class Crews:
    """Crews of all running jobs.

    What befalls one of them holds up no other: nothing here waits for a single job.

    Args:
        sites: those that the run has, without those that were lost before.
        lost: called with each site that is found to be gone, at once, before anything is tried
            again.
        went_on: called with the samples passed by job.
    """

    def __init__(
        self,
        sites: set[str],
        lost: Callable[[str], None],
        went_on: Callable[[Mapping[str, int]], None],
    ) -> None:
        self.crews: dict[str, Crew] = {}
        self._sites, self._lost, self._went_on = set(sites), lost, went_on

    def look(self) -> None:
        """Find out which sites are gone."""
        for site in sorted(self._sites - sites_alive()):
            self._sites.discard(site)
            self._lost(site)

    def find(self, site: str) -> None:
        """A site that was gone is there again."""
        self._sites.add(site)

    def prepare(self, parts: Mapping[str, SlotPlan]) -> None:
        """Have the actors of a slot that is to come, by job, while none goes on."""
        self._make_room(parts)
        for job, part in parts.items():
            self.crews[job].acquire(part)

    def expect(self, parts: Mapping[str, SlotPlan]) -> None:
        """Have what there is room for of the actors of a slot that is to come, beside one that goes
        on."""
        room = room_of_nodes()
        for crew in self.crews.values():
            crew.occupy(room)
        for job, part in parts.items():
            self.crews[job].acquire(part, room)

    def run(
        self,
        works: Callable[[str], SlotWork],
        jobs: list[str],
        is_over: Callable[[str], bool] = _never,
        meanwhile: Callable[[], None] = _nothing,
    ) -> Iterator[Finished | Torn | Broken]:
        """Train a slot of jobs; what came of each, in the order in which it did.

        Args:
            works: what a job is to do, asked again for each attempt; it may raise `TroubleError`.
            jobs: which.
            is_over: whether what a job has not trained yet comes too late: it is torn then.
            meanwhile: called again and again.
        """
        todo: dict[str, SlotWork] = {}
        for job in jobs:
            try:
                todo[job] = works(job)
            except TroubleError as error:
                yield Torn(job, str(error), out_of_memory=error.out_of_memory)
        self._make_room({job: work.part for job, work in todo.items()})
        for job in self.crews.keys() - todo.keys():
            self.crews[job].sit_out()
        going: dict[str, _Attempt] = {}
        for job, work in todo.items():
            try:
                going[job] = self._begin(job, work)
            except TroubleError as error:
                yield self._give_up(job, error)
        while going:
            self._wait(going)
            meanwhile()
            for job in list(going):
                try:
                    came = self._see(job, going[job], is_over)
                    if came is None and self._may_try_again(going[job]):
                        number = going[job].number + 1
                        self.crews[job].release(None)
                        going[job] = self._begin(job, works(job), number)
                except TroubleError as error:
                    came = self._give_up(job, error)
                if came is not None:
                    del going[job]
                    yield came
            self._tell([job for job, one in going.items() if one.failed is None])

    def close(self) -> None:
        """End all actors."""
        for crew in self.crews.values():
            crew.release(None)

    def _make_room(self, parts: Mapping[str, SlotPlan]) -> None:
        """All give up what they do not need before any takes more.

        Actors of a slot that came to nothing stay where there is room beside.
        """
        room = room_of_nodes()
        for job, part in parts.items():
            room.take_part(self.crews[job].job, part)
        for job, crew in self.crews.items():
            crew.release(parts.get(job), room)

    def _begin(self, job: str, work: SlotWork, number: int = 1) -> _Attempt:
        with troubles():
            return _Attempt(work, *self.crews[job].start(work), number)

    def _wait(self, going: Mapping[str, _Attempt]) -> None:
        """Until there may be something to see."""
        import ray

        results = [one.result for one in going.values() if one.failed is None]
        if results:
            ray.wait(results, num_returns=len(results), timeout=_LOOK_SECONDS)
        else:
            time.sleep(_LOOK_SECONDS)
        self.look()

    def _see(
        self, job: str, one: _Attempt, is_over: Callable[[str], bool]
    ) -> Finished | Torn | Broken | None:
        """What came of a job's slot; none: it goes on, or is to be tried again."""
        if one.failed is None and _is_there(one.result):
            found = self._result(job, one)
            if found is not None:
                return found
        if self._uses_lost(one.work):
            # What waits for a node that is gone may wait for ever.
            self.crews[job].leave(self._sites)
            return Torn(job, "a site that was to train it is gone", failed=False)
        if is_over(job):
            crew = self.crews[job]
            crew.release(None) if one.failed is not None else crew.rest()
            return Torn(job, "it was not finished in time", failed=False)
        if one.failed is not None and self._is_known(one) and one.number >= _ATTEMPTS:
            self.crews[job].release(None)
            if is_passing(one.failed):
                return Torn(job, in_words(one.failed), out_of_memory=True)
            return Broken(job, _last_words(one.failed))
        return None

    def _result(self, job: str, one: _Attempt) -> Finished | None:
        """What a slot came to; none: it failed."""
        import ray

        try:
            # First what is there: of a slot that failed, workers may never answer.
            result = ray.get(one.result)
            sent = total(ray.get(one.fetched))
            found = Finished(job, result, sent.chunks, sent.num_bytes)
        except (ray.exceptions.RayError, MemoryError) as error:
            one.failed, one.num_sites = error, len(self._sites)
            one.noticed_by = time.monotonic() + _NOTICE_SECONDS
            return None
        self.crews[job].done()
        return found

    def _is_known(self, one: _Attempt) -> bool:
        """Whether it is known by now if a site that is gone made an attempt fail."""
        # A site that only lent chunks may be the one that is gone: another lends them then.
        return len(self._sites) != one.num_sites or time.monotonic() >= one.noticed_by

    def _may_try_again(self, one: _Attempt) -> bool:
        return one.failed is not None and self._is_known(one)

    def _give_up(self, job: str, error: TroubleError) -> Torn:
        self.crews[job].release(None)
        return Torn(job, str(error), out_of_memory=error.out_of_memory)

    def _uses_lost(self, work: SlotWork) -> bool:
        return not {work.part.server, *work.part.workers} <= self._sites

    def _tell(self, jobs: list[str]) -> None:
        import ray

        asked: dict[Any, str] = {self.crews[job].samples_done(): job for job in jobs}
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=0.1) if asked else ([], [])
        done: dict[str, int] = {}
        for reference in ready:
            try:
                done[asked[reference]] = ray.get(reference)
            except ray.exceptions.RayError:
                # What has befallen it shows in its slot's result.
                continue
        if done:
            self._went_on(done)


def _is_there(reference: Any) -> bool:
    """Whether what it refers to has come, or failed."""
    import ray

    return bool(ray.wait([reference], timeout=0)[0])
