"""What a mechanism brings to be run by its name, whoever wrote it.

A package of one's own offers a `MechanismEntry` as an entry point of the group
`auctune.mechanisms`; docs/how-to/add-a-mechanism.md shows all of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from auctune.domain import Admission, Cluster, EnergyForecast, Task


@dataclass(frozen=True, slots=True)
class KnownBids:
    """The bids that are known while a mechanism is built.

    Attributes:
        tasks: of the market to come. Nobody knows them in time: a mechanism that reads them is
            clairvoyant, and must say so.
        history: of earlier days, the earliest first, each with slots from 0 on.
        energy: what slots to come will cost, in a market without an end; none: it has one.
    """

    tasks: Sequence[Task] = ()
    history: Sequence[Sequence[Task]] = ()
    energy: EnergyForecast | None = None


@dataclass(frozen=True, slots=True)
class MechanismEntry:
    """A mechanism by its settings and the way to build it.

    Attributes:
        params: a dataclass of the settings, each with a default: int, float, str, bool, a Literal
            of texts, or one of these or None. It is checked in `__post_init__`, by `InputError`
            with the setting's name as its place.
        build: a new mechanism over an empty cluster, from the cluster, `params`, and known bids.
        learns: whether a mechanism with these `params` reads the bids of earlier days.
    """

    params: type[Any]
    build: Callable[[Cluster, Any, KnownBids], Admission]
    learns: Callable[[Any], bool] = lambda _params: True
