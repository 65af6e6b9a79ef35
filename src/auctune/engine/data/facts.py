"""Results of the data worker: what is known of a data set before it is trained on."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from auctune.domain import Quote
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import RowKind
from auctune.domain.start_adapter import StartAdapter
from auctune.engine.vendors import RepairParams


@dataclass(frozen=True, slots=True)
class DataFacts:
    """A clean data set.

    Attributes:
        kind: of its rows.
        rows: that can be trained on.
        mean_tokens: as of `TokenizedDataSet`, of such rows, truncated to the length allowed.
        num_truncated: rows among them that were truncated.
        longest: tokens of the longest row as it stands in the file.
        dropped: other rows, which have nothing to learn: how many, by `DropCause`.
        context_tokens: the longest row that the base can read; `None` if it is not limited.
    """

    kind: RowKind
    rows: int
    mean_tokens: float
    num_truncated: int
    longest: int
    dropped: Mapping[str, int]
    context_tokens: int | None

    @property
    def size(self) -> DataSize:
        """What work is counted by, and what is lost."""
        return DataSize.of(
            self.rows,
            self.mean_tokens,
            self.num_truncated,
            self.dropped,
            self.longest,
            self.context_tokens,
            has_pairs=self.kind is RowKind.PREFERENCE,
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """A vendor's quote, and what its work on trial made of the data."""

    quote: Quote
    facts: DataFacts


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A data set that a vendor must repair first.

    Attributes:
        size: every line counted as a row of its own text, which is more than training will see.
        offers: of all vendors that can make something of it, one at least.
    """

    size: DataSize
    offers: tuple[Offer, ...]


FACTS = TypeAdapter(DataFacts)
APPRAISALS = TypeAdapter(Appraisal)
REPAIR_PARAMS = TypeAdapter(RepairParams)
START_ADAPTERS = TypeAdapter(StartAdapter)
