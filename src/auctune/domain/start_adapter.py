"""An adapter that a job starts from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain.errors import InputError

START_SETTINGS = ("rank", "alpha", "use_rslora", "target_modules")
"""Hyperparameters that are the adapter's."""

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of weights, by their names in the base: `...q_proj.lora_A.weight`."""


@dataclass(frozen=True, slots=True)
class StartAdapter:
    """An adapter that a job goes on from, whose files have been checked.

    Attributes:
        rank, alpha, use_rslora, target_modules: of the adapter, as of `TrainingConfig`.
        base_digest: of the base that it was trained on; `None` if its files do not say.
        digest: SHA-256 over these settings and its weights, in hexadecimal.
        shapes: of its weights.
    """

    rank: int
    alpha: float
    use_rslora: bool
    target_modules: tuple[str, ...]
    base_digest: str | None
    digest: str
    shapes: Shapes

    def settings(self, given: Mapping[str, Any], place: str = "") -> dict[str, Any]:
        """Return the settings of training that are the adapter's.

        Args:
            given: settings that the job names itself.
            place: prefix of their names in errors.

        Raises:
            InputError: naming the first that contradicts the adapter.
        """
        own = {name: getattr(self, name) for name in START_SETTINGS}
        for name, value in own.items():
            if name not in given:
                continue
            wanted = given[name]
            same = set(wanted) == set(value) if name == "target_modules" else wanted == value
            if not same:
                shown = ", ".join(value) if isinstance(value, tuple) else f"{value}"
                found = f"{wanted!r}, where the adapter that the job starts from has {shown}"
                raise InputError(f"{place}{name}", found, "the adapter's, or none")
        return own

    def check_base(self, digest: str, place: str) -> None:
        """Check that it was trained on this base, if its files say on which.

        Raises:
            InputError: naming `place`.
        """
        if self.base_digest not in (None, digest):
            found = f"was trained on another base (digest {self.base_digest[:12]})"
            expected = f"an adapter of this base in this number type (digest {digest[:12]})"
            raise InputError(place, found, expected)

    def check_shapes(self, expected: Shapes, place: str) -> None:
        """Check that its weights have the names and shapes of its settings on a base.

        Raises:
            InputError: naming `place` and the weight.
        """
        for name in sorted(expected.keys() | self.shapes.keys()):
            found, wanted = self.shapes.get(name), expected.get(name)
            if found == wanted:
                continue
            what = "is not a weight of the adapter's target modules on this base"
            if found is None:
                what = "is missing"
            elif wanted is not None:
                what = f"has shape {list(found)}, where the base needs {list(wanted)}"
            raise InputError(f"{place}: {name}", what, "an adapter of this base")
