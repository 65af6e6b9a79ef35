"""Policies of renting by deadline, entries of the edge and allocators of time sharing, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from auctune.domain import InputError
from auctune.edge.baselines import AntMan, Liquid, Tiresias
from auctune.edge.eris import EdgeEntry, ErisEntry
from auctune.edge.prices import ErisParams
from auctune.files.parameter_text import parse_label, parse_params
from auctune.spot.policies import Ahanp, Ahap, OnDemandOnly, Robust, SpotFirst, UniformProgress
from auctune.spot.policy import Policy
from auctune.timeshare import named
from auctune.timeshare.allocator import Allocator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Catalogue(Generic[T]):
    """Mechanisms of one kind.

    Attributes:
        place: of a name, for errors.
        entries: by name, a dataclass of settings, and how the mechanism is built from one.
    """

    place: str
    entries: Mapping[str, tuple[type[Any], Callable[[Any], T]]]

    def names(self) -> tuple[str, ...]:
        """All names that `build` knows."""
        return tuple(self.entries)

    def build(self, name: str, settings: Mapping[str, str]) -> T:
        """A new mechanism.

        Args:
            name: one of `names()`.
            settings: values of its settings, as text.

        Raises:
            InputError: for an unknown name or setting, or a value that is not one.
        """
        if name not in self.entries:
            offered = ", ".join(self.entries)
            raise InputError(self.place, f"{name!r} is not offered", f"one of {offered}")
        kind, make = self.entries[name]
        return make(parse_params(kind, settings))

    def parse(self, label: str, option: str) -> T:
        """Return the mechanism of a text such as `eris:pricing=paper`.

        Raises:
            InputError: as of `build`, and for a text of another form; naming `option`.
        """
        name, settings = parse_label(label, option, self.place)
        try:
            return self.build(name, settings)
        except InputError as error:
            place = option if error.place == self.place else f"{option} {label}: {error.place}"
            raise error.at(place) from None


def _itself(made: Any) -> Any:
    """Return a mechanism that is a dataclass of its own settings."""
    return made


SPOT_POLICIES: Catalogue[Policy] = Catalogue(
    "policy",
    {
        "ahap": (Ahap, _itself),
        "ahanp": (Ahanp, _itself),
        "od-only": (OnDemandOnly, _itself),
        "msu": (SpotFirst, _itself),
        "up": (UniformProgress, _itself),
        "robust": (Robust, _itself),
    },
)

EDGE_ENTRIES: Catalogue[EdgeEntry] = Catalogue(
    "mechanism",
    {
        "eris": (ErisParams, ErisEntry),
        "tiresias": (Tiresias, _itself),
        "antman": (AntMan, _itself),
        "liquid": (Liquid, _itself),
    },
)

TIMESHARE_ALLOCATORS: Catalogue[Allocator] = Catalogue(
    "allocator", {name: (entry.settings, entry.build) for name, entry in named.ALLOCATORS.items()}
)
