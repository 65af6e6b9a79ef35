"""Slots of jobs through their crews, side by side; and what goes wrong in one."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from auctune.edge.plan import SlotPlan
from auctune.run.edge.actors import SlotResult
from auctune.run.edge.crew import Crew, SlotWork, total
from auctune.run.edge.resources import site_resource

_LOOK_SECONDS = 0.5
_LOOK_AGAIN_SECONDS = 0.1
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
    """A job's slot that came to nothing, as a site that trained it is gone, or its time is over."""

    job: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that fails again and again at sites that are there, and why."""

    job: str
    why: str


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


def _root_of(error: Exception) -> str:
    """What an actor's call ended with, without the way that it came."""
    import ray

    while isinstance(error, ray.exceptions.RayTaskError):
        error = error.cause
    # Of an actor that could not be made, Ray's words are its whole trace: its last line says why.
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1].strip()}"


def _never(_job: str) -> bool:
    """A slot lasts as long as the work in it."""
    return False


class Crews:
    """Crews of all running jobs.

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
        for job, crew in self.crews.items():
            crew.release(parts.get(job))
        for job, part in parts.items():
            self.crews[job].acquire(part)

    def run(
        self,
        works: Callable[[str], SlotWork],
        jobs: list[str],
        is_over: Callable[[str], bool] = _never,
    ) -> Iterator[Finished | Torn | Broken]:
        """Train a slot of jobs; what came of each, in the order in which it did.

        Args:
            works: what a job is to do, asked again for each attempt.
            jobs: which.
            is_over: whether what a job has not trained yet comes too late: it is torn then.
        """
        import ray

        todo = {job: works(job) for job in jobs}
        # All give up what they do not need before any takes more.
        for job, crew in self.crews.items():
            crew.release(todo[job].part if job in todo else None)
        attempts = dict.fromkeys(jobs, 1)
        going = {job: self.crews[job].start(work) for job, work in todo.items()}
        while going:
            results = [result for result, _ in going.values()]
            ready = set(ray.wait(results, num_returns=len(results), timeout=_LOOK_SECONDS)[0])
            self.look()
            for job, (result, fetched) in list(going.items()):
                if result not in ready:
                    # What waits for a node that is gone may wait for ever.
                    if self._uses_lost(todo[job]):
                        del going[job]
                        yield self._tear(job)
                    continue
                del going[job]
                try:
                    sent = total(ray.get(fetched))
                    yield Finished(job, ray.get(result), sent.chunks, sent.num_bytes)
                except ray.exceptions.RayError as error:
                    if self._is_torn(todo[job]):
                        yield self._tear(job)
                        continue
                    attempts[job] += 1
                    self.crews[job].release(None)
                    if attempts[job] > _ATTEMPTS:
                        yield Broken(job, _root_of(error))
                        continue
                    todo[job] = works(job)
                    going[job] = self.crews[job].start(todo[job])
            for job in [job for job in going if is_over(job)]:
                del going[job]
                self.crews[job].release(None)
                yield Torn(job)
            self._tell(list(going))

    def close(self) -> None:
        """End all actors."""
        for crew in self.crews.values():
            crew.release(None)

    def _tear(self, job: str) -> Torn:
        self.crews[job].leave(self._sites)
        return Torn(job)

    def _uses_lost(self, work: SlotWork) -> bool:
        return not {work.part.server, *work.part.workers} <= self._sites

    def _is_torn(self, work: SlotWork) -> bool:
        """Whether a site that trained it is gone; waits for what Ray has not noticed yet."""
        num_before, deadline = len(self._sites), time.monotonic() + _NOTICE_SECONDS
        # A site that only lent chunks may be the one that is gone: another lends them then.
        while len(self._sites) == num_before and time.monotonic() < deadline:
            if self._uses_lost(work):
                break
            time.sleep(_LOOK_AGAIN_SECONDS)
            self.look()
        return self._uses_lost(work)

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
