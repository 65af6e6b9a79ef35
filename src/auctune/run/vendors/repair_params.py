"""What our own vendor can be told."""

import math
from dataclasses import dataclass
from decimal import Decimal

from auctune.domain import InputError, Money
from auctune.domain.dataset import RowKind
from auctune.domain.money import ZERO
from auctune.run.vendors.language import check_languages


@dataclass(frozen=True, slots=True)
class RepairParams:
    """What our vendor asks for, and what it leaves of a data set.

    Attributes:
        name: the vendor's name in quotes and receipts.
        price: money for taking the work at all.
        price_per_row: money for each row found in the file.
        delay: slots that the work lasts, whatever the size.
        min_characters, max_characters: of a row's texts together, blanks not counted.
        languages: ISO 639 codes to keep; empty: all. Rows too short to judge are kept.
        similarity: Jaccard similarity in (0, 1] from which on a row is a near-duplicate.
        kind: of the rows written; none: the kind that most rows have.
        seed: of the near-duplicate search.
    """

    name: str = "house"
    price: Money = ZERO
    price_per_row: Money = ZERO
    delay: int = 1
    min_characters: int = 2
    max_characters: int = 100_000
    languages: tuple[str, ...] = ()
    similarity: float = 0.9
    kind: RowKind | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("name", "is empty", "a name")
        for name in ("price", "price_per_row"):
            amount: Decimal = getattr(self, name)
            if not amount.is_finite() or amount < 0:
                raise InputError(name, f"{amount}", "an amount of money >= 0")
        if self.delay < 0:
            raise InputError("delay", f"{self.delay}", "a number of slots >= 0")
        if not 1 <= self.min_characters <= self.max_characters:
            raise InputError(
                "min_characters", f"{self.min_characters}", f"1 to {self.max_characters}"
            )
        if not (math.isfinite(self.similarity) and 0 < self.similarity <= 1):
            raise InputError("similarity", f"{self.similarity}", "a number in (0, 1]")
        check_languages(self.languages, "languages")
