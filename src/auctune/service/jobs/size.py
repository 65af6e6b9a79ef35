"""How much a data set is, as the base's tokenizer cuts it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataSize:
    """Rows of a data set that can be trained on, and their mean length.

    Attributes:
        rows: how many.
        mean_tokens: of a row, cut to the job's length, > 0.
    """

    rows: int
    mean_tokens: float

    def samples(self, epochs: int, sample_tokens: float) -> float:
        """The work of so many passes, in the zone's samples."""
        return self.rows * epochs * self.mean_tokens / sample_tokens
