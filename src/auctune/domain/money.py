"""Money: Decimal at the edges, float64 inside a mechanism, rounded here and nowhere else.

A mechanism computes a cost as a float64. What a user sees and pays is that cost rounded half-even
to `STEP`. Quotes, receipts and ledgers all carry the rounded number, so they always agree.
"""

import re
from decimal import ROUND_HALF_EVEN, Decimal

from auctune.domain.errors import InputError

Money = Decimal

STEP: Money = Decimal("0.0001")
ZERO: Money = Decimal("0.0000")
# Far above any real sum, and small enough that float64 still resolves STEP.
LARGEST: Money = Decimal(10) ** 11
_LARGEST = float(LARGEST)
_TEXT = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_SHOWN = 60


def round_money(amount: float) -> Money:
    """Round an amount (float64) half-even to `STEP`, from its exact binary value.

    Raises:
        ValueError: if `amount` is not finite.
    """
    if not -_LARGEST <= amount <= _LARGEST:
        raise ValueError(f"amount of money out of range: {amount!r}; expected within ±{LARGEST:g}")
    return Decimal(amount).quantize(STEP, rounding=ROUND_HALF_EVEN)


def format_money(amount: Money) -> str:
    """Return an amount with 4 decimals."""
    return f"{amount.quantize(STEP):f}"


def least_above(price: Money) -> Money | None:
    """Return the least bid above a price, or None if it would exceed the largest amount."""
    return price + STEP if price < LARGEST else None


def parse_money(value: int | float | str | Decimal, place: str) -> Money:
    """Parse an amount of money from a file or a caller, exactly.

    Args:
        value: a number >= 0 with at most 4 decimals; as text, ASCII digits with or without a
            point and further digits. A float counts as the shortest decimal that reads back as
            that float, which is what its writer meant.
        place: named in the error.

    Raises:
        InputError: if it is not a number, is negative, too large, or has more than 4 decimals.
    """
    expected = "an amount of money >= 0 with at most 4 decimals"
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise InputError(place, f"{value!r} is not a number", expected)
    if isinstance(value, str) and not _TEXT.fullmatch(value):
        raise InputError(place, f"{_short(value)} is not a number", expected)
    try:
        amount = Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        raise InputError(place, f"{value!r} is not a number", expected) from None
    if not amount.is_finite() or amount > LARGEST:
        raise InputError(place, f"{_short(value)} is out of range", expected)
    if amount.is_signed():
        raise InputError(place, f"{_short(value)} is negative", expected)
    if amount != amount.quantize(STEP):
        raise InputError(place, f"{_short(value)} has more than 4 decimals", expected)
    return amount.quantize(STEP)


def _short(value: object) -> str:
    """Return a value as an error shows it; a long one by its beginning."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
