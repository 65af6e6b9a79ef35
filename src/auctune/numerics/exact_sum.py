"""A running sum that is rounded once, when it is asked for: math.fsum without the list.

Kept as partial sums that do not overlap (Shewchuk, Discrete & Computational Geometry 18, 1997);
there are few of them, however many terms were added.
"""

import math


class ExactSum:
    """The sum of all that was added, exactly; its value is the nearest float64."""

    def __init__(self) -> None:
        self._partials: list[float] = []

    def add(self, term: float) -> None:
        """Add a finite number."""
        kept = 0
        partials = self._partials
        for partial in partials:
            larger, smaller = (term, partial) if abs(term) >= abs(partial) else (partial, term)
            term = larger + smaller
            rest = smaller - (term - larger)
            if rest:
                partials[kept] = rest
                kept += 1
        partials[kept:] = [term]

    def value(self) -> float:
        """The sum, rounded once."""
        return math.fsum(self._partials)
