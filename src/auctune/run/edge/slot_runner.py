"""Runs slots of jobs through their actors, side by side, and handles what goes wrong in one."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auctune.edge.decision import SlotPlan
from auctune.run.edge.actors import SlotResult
from auctune.run.edge.job_actors import JobActors, SlotWork
from auctune.run.edge.job_errors import SlotError, as_slot_error, describe, is_transient, unwrap
from auctune.run.edge.resources import FreeResources, sites_alive

_POLL_SECONDS = 0.5
# A lost node is reported by then, if Ray was told to check often.
_NOTICE_SECONDS = 5.0
_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class SlotDone:
    """A job's slot that was trained."""

    job: str
    result: SlotResult


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A job's slot that was not trained.

    Attributes:
        job: whose.
        why: for its owner.
        failed: whether something went wrong; otherwise a site was lost, or its time is over.
        out_of_memory: whether memory was too small, as far as that is known.
        rows_lost: whether rows of a lost site are needed that no other site can read.
    """

    job: str
    why: str
    failed: bool = True
    out_of_memory: bool = False
    rows_lost: bool = False

    @classmethod
    def from_error(cls, job: str, error: SlotError) -> "SlotLost":
        """Return the lost slot of a job for the error that ended it."""
        return cls(job, str(error), out_of_memory=error.out_of_memory, rows_lost=error.rows_lost)


@dataclass(frozen=True, slots=True)
class JobBroken:
    """A job that fails again and again at sites that are alive, and why."""

    job: str
    why: str


@dataclass(slots=True)
class _Attempt:
    """An attempt at a job's slot.

    Attributes:
        work: the slot.
        result: reference to its `SlotResult`.
        number: of attempts, with this one.
        error: with which it ended, or None while it runs.
        num_sites: that were alive when it failed.
        noticed_by: when a lost site has been reported.
    """

    work: SlotWork
    result: Any
    number: int = 1
    error: Exception | None = None
    num_sites: int = 0
    noticed_by: float = 0.0


def _never(_job: str) -> bool:
    """A slot lasts as long as the work in it."""
    return False


def _nothing() -> None:
    pass


def _last_line(error: Exception) -> str:
    """Return the type and the last line of an actor's error."""
    error = unwrap(error)
    # Of an actor that could not be made, Ray's text is a whole trace: its last line says why.
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"


class SlotRunner:
    """Actors of all running jobs, and their slots.

    Jobs are isolated: no call blocks on a single job.

    Args:
        sites: that are alive.
        on_site_lost: called with each site that is lost, before anything is tried again.
        on_progress: called with the rows of the running slot that are trained, by job.

    Attributes:
        actors: by job.
    """

    def __init__(
        self,
        sites: set[str],
        on_site_lost: Callable[[str], None],
        on_progress: Callable[[Mapping[str, int]], None],
    ) -> None:
        self.actors: dict[str, JobActors] = {}
        self._sites = set(sites)
        self._on_site_lost, self._on_progress = on_site_lost, on_progress

    def check_sites(self) -> None:
        """Report the sites that are lost."""
        for site in sorted(self._sites - sites_alive()):
            self._sites.discard(site)
            self._on_site_lost(site)

    def add_site(self, site: str) -> None:
        """Use a site that was lost again."""
        self._sites.add(site)

    def prestart(self, parts: Mapping[str, SlotPlan]) -> None:
        """Start the actors of a coming slot, by job, while none runs."""
        self._make_room(parts)
        for job, part in parts.items():
            self.actors[job].ensure_started(part)

    def prestart_beside(self, parts: Mapping[str, SlotPlan]) -> None:
        """Start the actors of a coming slot for which there is room beside the running one."""
        free = FreeResources.of_nodes()
        for actors in self.actors.values():
            actors.reserve(free)
        for job, part in parts.items():
            self.actors[job].ensure_started(part, free)

    def run(
        self,
        make_work: Callable[[str], SlotWork],
        jobs: list[str],
        is_over: Callable[[str], bool] = _never,
        meanwhile: Callable[[], None] = _nothing,
    ) -> Iterator[SlotDone | SlotLost | JobBroken]:
        """Train a slot of jobs, and yield the result of each as it comes.

        Args:
            make_work: returns the slot of a job, for each attempt; it may raise `SlotError`.
            jobs: their ids.
            is_over: whether a job's time is over: its slot is lost then.
            meanwhile: called again and again.
        """
        todo: dict[str, SlotWork] = {}
        for job in jobs:
            try:
                todo[job] = make_work(job)
            except SlotError as error:
                yield SlotLost.from_error(job, error)
        self._make_room({job: work.part for job, work in todo.items()})
        for job in self.actors.keys() - todo.keys():
            self.actors[job].age()
        running: dict[str, _Attempt] = {}
        for job, work in todo.items():
            try:
                running[job] = self._begin(job, work)
            except SlotError as error:
                yield self._give_up(job, error)
        while running:
            self._wait(running)
            meanwhile()
            for job in list(running):
                try:
                    found = self._check(job, running[job], is_over)
                    if found is None and self._may_retry(running[job]):
                        number = running[job].number + 1
                        self.actors[job].release(None)
                        running[job] = self._begin(job, make_work(job), number)
                except SlotError as error:
                    found = self._give_up(job, error)
                if found is not None:
                    del running[job]
                    yield found
            self._report_progress([job for job, one in running.items() if one.error is None])

    def drop(self, job: str) -> None:
        """End the actors of a job."""
        actors = self.actors.pop(job, None)
        if actors is not None:
            actors.release(None)

    def close(self) -> None:
        """End all actors."""
        for actors in self.actors.values():
            actors.release(None)

    def _make_room(self, parts: Mapping[str, SlotPlan]) -> None:
        """Have all jobs release what they do not need before any takes more.

        Actors of a lost slot stay where there is room beside.
        """
        free = FreeResources.of_nodes()
        for job, part in parts.items():
            free.reserve_slot(self.actors[job].job, part)
        for job, actors in self.actors.items():
            actors.release(parts.get(job), free)

    def _begin(self, job: str, work: SlotWork, number: int = 1) -> _Attempt:
        with as_slot_error():
            return _Attempt(work, self.actors[job].start(work), number)

    def _wait(self, running: Mapping[str, _Attempt]) -> None:
        """Wait until something may have changed."""
        import ray

        results = [one.result for one in running.values() if one.error is None]
        if results:
            ray.wait(results, num_returns=len(results), timeout=_POLL_SECONDS)
        else:
            time.sleep(_POLL_SECONDS)
        self.check_sites()

    def _check(
        self, job: str, one: _Attempt, is_over: Callable[[str], bool]
    ) -> SlotDone | SlotLost | JobBroken | None:
        """Return the result of a job's slot; None if it runs, or is to be tried again."""
        actors = self.actors[job]
        if one.error is None and _has_ended(one.result):
            found = self._result(job, one)
            if found is not None:
                return found
        if not {one.work.part.server, *one.work.part.workers} <= self._sites:
            # What waits for a node that is gone may wait for ever.
            actors.drop_sites(self._sites)
            return SlotLost(job, "a site that was to train it is gone", failed=False)
        if is_over(job):
            actors.cancel() if one.error is None else actors.release(None)
            return SlotLost(job, "it was not finished in time", failed=False)
        if one.error is not None and self._is_noticed(one) and one.number >= _MAX_ATTEMPTS:
            actors.release(None)
            if is_transient(one.error):
                return SlotLost(job, describe(one.error), out_of_memory=True)
            return JobBroken(job, _last_line(one.error))
        return None

    def _result(self, job: str, one: _Attempt) -> SlotDone | None:
        """Return the result of a slot that has ended; None if it failed."""
        import ray

        try:
            found = SlotDone(job, ray.get(one.result))
        except (ray.exceptions.RayError, MemoryError) as error:
            one.error, one.num_sites = error, len(self._sites)
            one.noticed_by = time.monotonic() + _NOTICE_SECONDS
            return None
        self.actors[job].mark_trained()
        return found

    def _is_noticed(self, one: _Attempt) -> bool:
        """Return whether a lost site would have been reported if it made an attempt fail."""
        # The lost site may have had no part but its chunks: another stores them then.
        return len(self._sites) != one.num_sites or time.monotonic() >= one.noticed_by

    def _may_retry(self, one: _Attempt) -> bool:
        return one.error is not None and self._is_noticed(one)

    def _give_up(self, job: str, error: SlotError) -> SlotLost:
        self.actors[job].release(None)
        return SlotLost.from_error(job, error)

    def _report_progress(self, jobs: list[str]) -> None:
        import ray

        calls: dict[Any, str] = {self.actors[job].rows_done(): job for job in jobs}
        ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0.1) if calls else ([], [])
        done: dict[str, int] = {}
        for reference in ready:
            try:
                done[calls[reference]] = ray.get(reference)
            except ray.exceptions.RayError:
                # The error shows in its slot's result.
                continue
        if done:
            self._on_progress(done)


def _has_ended(reference: Any) -> bool:
    import ray

    return bool(ray.wait([reference], timeout=0)[0])
