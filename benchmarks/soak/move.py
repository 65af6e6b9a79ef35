"""One thing that a client may do next."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from soak.client import Client


class Move(Protocol):
    """One thing that a client may do next."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def weight(self) -> float:
        """How often, by comparison."""
        ...

    def make(self, client: "Client") -> None:
        """Do it, and note in the diary what came of it."""
        ...
