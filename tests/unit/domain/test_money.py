import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError, parse_money, round_money
from auctune.domain.money import LARGEST, STEP

amounts = st.decimals(0, LARGEST, places=4)


@given(st.floats(-1e10, 1e10))
def test_rounding_moves_an_amount_by_half_a_step_at_most(amount: float) -> None:
    rounded = round_money(amount)
    assert abs(rounded - Decimal(amount)) <= STEP / 2
    assert rounded == rounded.quantize(STEP)


@given(st.floats(-1e10, 1e10), st.floats(-1e10, 1e10))
def test_rounding_keeps_the_order_of_amounts(a: float, b: float) -> None:
    assert (round_money(a) <= round_money(b)) or a > b


@pytest.mark.parametrize(
    ("amount", "rounded"),
    [
        # Exact in binary, and half way between two steps: to the even one.
        (0.00390625, "0.0039"),
        (1 / 32, "0.0312"),
        (3 / 32, "0.0938"),
        (-1 / 32, "-0.0312"),
        (0.00005, "0.0001"),  # the float lies above the tie
    ],
)
def test_rounding_is_half_even_of_the_exact_binary_value(amount: float, rounded: str) -> None:
    assert round_money(amount) == Decimal(rounded)


@pytest.mark.parametrize("amount", [math.nan, math.inf, -math.inf, 1e12])
def test_what_is_no_amount_cannot_be_rounded(amount: float) -> None:
    with pytest.raises(ValueError, match="out of range"):
        round_money(amount)


@given(amounts)
def test_an_amount_is_read_back_from_text_and_from_a_json_number(amount: Decimal) -> None:
    assert parse_money(str(amount), "x") == amount
    assert parse_money(float(amount), "x") == amount
    assert parse_money(amount, "x").as_tuple().exponent == -4


@given(amounts)
def test_a_float_amount_rounds_to_itself(amount: Decimal) -> None:
    assert round_money(float(amount)) == amount


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "is not a number"),
        (None, "is not a number"),
        ("ten", "is not a number"),
        ("", "is not a number"),
        ("1_000", "is not a number"),
        (" 12 ", "is not a number"),
        ("12\n", "is not a number"),
        ("+12", "is not a number"),
        ("1e3", "is not a number"),
        ("12.", "is not a number"),
        (".5", "is not a number"),
        ("NaN", "is not a number"),
        ("\u0661\u0662", "is not a number"),
        ("\uff11\uff12.\uff15", "is not a number"),
        ("-0", "is negative"),
        (-0.0, "is negative"),
        (-0.01, "is negative"),
        (1.23456, "has more than 4 decimals"),
        ("0.00001", "has more than 4 decimals"),
        (math.nan, "is out of range"),
        (math.inf, "is out of range"),
        (1e12, "is out of range"),
        (10**400, "is out of range"),
    ],
)
def test_what_is_no_amount_is_refused(value: object, message: str) -> None:
    with pytest.raises(InputError, match=f"^bid: .*{message}; expected an amount of money"):
        parse_money(value, "bid")  # type: ignore[arg-type]  # files hold anything


def test_an_error_shows_the_beginning_of_a_long_amount() -> None:
    for value in ("9" * 4000, "9x" * 2000):
        with pytest.raises(InputError) as caught:
            parse_money(value, "bid")
        assert len(str(caught.value)) < 200
