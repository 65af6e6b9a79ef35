from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from auctune.domain import InputError, parse_money
from auctune.schema import STRICT, check_schema, format_path


class Part(BaseModel):
    model_config = STRICT

    amount: Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]


class Whole(BaseModel):
    model_config = STRICT

    count: Annotated[int, Field(ge=1)]
    name: str = "x"
    cost: float | list[float] = 0.0
    parts: list[Part] = Field(default_factory=list)


def test_what_is_right_is_returned() -> None:
    made = check_schema(Whole, {"count": 2, "parts": [{"amount": 1.5}]}, "file")

    assert (made.count, made.parts[0].amount) == (2, Decimal("1.5000"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "file: count: is missing; expected a value"),
        ({"count": 0}, "file: count: 0; expected greater than or equal to 1"),
        ({"count": "2"}, "file: count: '2'; expected a valid integer"),
        ({"count": True}, "file: count: True; expected a valid integer"),
        (
            {"count": 1, "no": 1},
            "file: no: is an unknown key; expected one of count, name, cost, parts",
        ),
        (
            {"count": 1, "parts": [{"amount": 1, "no": 1}]},
            "file: parts[0].no: is an unknown key; expected one of amount",
        ),
        ({"count": 1, "name": {}}, "file: name: a table; expected a valid string"),
        ({"count": 1, "cost": "x"}, "file: cost: 'x'; expected a valid number"),
        ({"count": 1, "cost": [1.0, "x"]}, "file: cost[1]: 'x'; expected a valid number"),
        ({"count": 1, "parts": [{}]}, "file: parts[0].amount: is missing"),
        (
            {"count": 1, "parts": [{"amount": -1}]},
            "file: parts[0].amount: -1 is negative; expected an amount",
        ),
        ({"count": 1, "name": ["x" * 99]}, "file: name: a list; expected a valid string"),
        ([], "file: a list; expected a valid dictionary or instance of Whole"),
    ],
)
def test_what_is_wrong_is_one_line_with_place_finding_and_expectation(
    value: Any, expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_schema(Whole, value, "file")

    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_long_values_are_cut() -> None:
    with pytest.raises(InputError) as caught:
        check_schema(Whole, {"count": "9" * 500}, "file")

    assert len(str(caught.value)) < 120


def test_paths_are_written_as_a_reader_writes_them() -> None:
    assert format_path(("bids", 2, "deadline")) == "bids[2].deadline"
    assert format_path(()) == ""
