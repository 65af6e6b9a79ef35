"""The device that threads take turns on: who is there, what that takes, what changing costs.

A thread stays on the device after its turn as long as there is room. Room for the next one is made
by suspending those that are not to train in this unit, then those that have trained in it already.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.train.preemptible import PreemptibleJob


@dataclass
class Switching:
    """What changing threads has cost.

    Attributes:
        suspended, resumed: how often.
        seconds: in all.
    """

    suspended: int = 0
    resumed: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Seconds for a thread that leaves and another that comes; 0 before the first."""
        return self.seconds / self.resumed if self.resumed else 0.0


class Pool:
    """The device.

    Args:
        threads: suspended if there is a limit, else not.
        names: of the threads, for errors.
        needs: bytes of each while it trains, as measured.
        memory_bytes: for all together; none: all there is.
        now: seconds by a clock that only goes forward.

    Raises:
        InputError: naming the first thread that does not fit even alone.

    Attributes:
        switching: what it has cost so far.
        most_bytes: that were ever in use, by the threads' own count.
    """

    def __init__(
        self,
        threads: Sequence[PreemptibleJob],
        names: Sequence[str],
        needs: Sequence[int],
        memory_bytes: int | None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        check_room(names, needs, memory_bytes)
        self._threads, self._needs, self._now = threads, needs, now
        self._limit = memory_bytes
        self._resident = [] if memory_bytes is not None else list(range(len(threads)))
        self.switching = Switching()
        self.most_bytes = 0

    def is_there(self, thread: int) -> bool:
        """Whether a thread is on the device."""
        return thread in self._resident

    def order(self, threads: Sequence[int]) -> list[int]:
        """The turns of a unit: who is there goes first."""
        return sorted(threads, key=lambda thread: not self.is_there(thread))

    def enter(self, thread: int, waiting: Sequence[int]) -> None:
        """Bring a thread onto the device, and make room for it.

        Args:
            thread: that is to train.
            waiting: those that are still to train in this unit, the thread itself not among them.
        """
        begun = self._now()
        moved = self._make_room(thread, waiting)
        if not self.is_there(thread):
            self._threads[thread].resume()
            self._resident.append(thread)
            self.switching.resumed += 1
            moved = True
        if moved:
            self.switching.seconds += self._now() - begun
        self.most_bytes = max(self.most_bytes, self._in_use(thread))

    def suspend(self, thread: int) -> None:
        """Send a thread off the device."""
        self._threads[thread].suspend()
        self._resident.remove(thread)
        self.switching.suspended += 1

    def expected_seconds(self, threads: Sequence[int]) -> float:
        """What changing will cost in a unit in which these train."""
        return self.switching.mean * sum(not self.is_there(thread) for thread in threads)

    def _make_room(self, thread: int, waiting: Sequence[int]) -> bool:
        moved = False
        while self._limit is not None and self._needed(thread) > self._limit:
            others = [one for one in self._resident if one != thread]
            if not others:
                break
            self.suspend(min(others, key=lambda one: one in waiting))
            moved = True
        return moved

    def _needed(self, thread: int) -> int:
        """Bytes in use if a thread, there or not, trained now."""
        if self.is_there(thread):
            return self._in_use(thread)
        return self._in_use(None) + self._needs[thread]

    def _in_use(self, thread: int | None) -> int:
        rest = sum(self._threads[one].resting_bytes for one in self._resident if one != thread)
        return rest + (0 if thread is None else self._threads[thread].memory_bytes)


def check_room(names: Sequence[str], needs: Sequence[int], memory_bytes: int | None) -> None:
    """Refuse a limit under which a thread does not fit even alone.

    Raises:
        InputError: naming the first of them.
    """
    for name, size in zip(names, needs, strict=True):
        if memory_bytes is not None and size > memory_bytes:
            found = f"{memory_bytes} bytes, but {name!r} takes {size} while it trains"
            raise InputError("memory", found, f"{size} bytes at least")
