"""What a standing pool asks of its threads, beside what every pool does, and who makes them."""

from collections.abc import Mapping
from typing import Any, Protocol

from auctune.train.preemptible import PreemptibleJob


class OpenThread(PreemptibleJob, Protocol):
    """A thread that can say what it has read."""

    @property
    def learned(self) -> tuple[int, int]:
        """Rows and tokens trained so far."""
        ...


class ThreadShop(Protocol):
    """Makes threads of what is on record of them."""

    def make(self, thread: str, lasting: Mapping[str, Any]) -> OpenThread:
        """A new thread, always the same.

        Args:
            thread: its id.
            lasting: what it trains.

        Raises:
            InputError: if that cannot be trained.
        """
        ...

    def let_go(self, thread: str) -> None:
        """A thread that was made is not needed any more."""
        ...
