"""The errors that auctune raises on purpose.

Everything that a caller or an input file got wrong is an `InputError`: it names the place, what
was found there, and what was expected, in one line. The command line turns it into exit code 2.
"""


class AuctuneError(Exception):
    """Base of all errors that auctune raises on purpose."""


class InputError(AuctuneError, ValueError):
    """An input of auctune is wrong: `place: found; expected ...`.

    Args:
        place: where it is, as a reader finds it: `market.toml: bids[2].deadline`.
        found: what is there, and why it cannot be used.
        expected: what would have been right.
    """

    def __init__(self, place: str, found: str, expected: str) -> None:
        self.place = place
        self.found = found
        self.expected = expected
        super().__init__(f"{place}: {found}; expected {expected}")

    def within(self, outer: str) -> "InputError":
        """Return the same error at a place inside `outer` (a file, or a field of one)."""
        return type(self)(f"{outer}: {self.place}", self.found, self.expected)

    def at(self, place: str) -> "InputError":
        """Return the same error at another place, such as the option with the wrong value."""
        return type(self)(place, self.found, self.expected)

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str]]:
        # Exceptions pickle by their args, which hold the joined message here.
        return type(self), (self.place, self.found, self.expected)


class RepairableError(InputError):
    """A row of training data is wrong in a way that a repair may fix."""


class CheckpointError(AuctuneError):
    """A checkpoint is missing, damaged, or belongs to something else."""


class OutOfMemoryError(AuctuneError):
    """A task did not fit into memory this time: nothing is wrong with it, it can be tried again."""
