from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field

from auctune.domain import InputError, parse_money
from auctune.files.schema import STRICT, ByKind, check_schema, format_path


class Part(BaseModel):
    model_config = STRICT

    amount: Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]


class Whole(BaseModel):
    model_config = STRICT

    count: Annotated[int, Field(ge=1)]
    name: str = "x"
    cost: float | list[float] = 0.0
    epochs: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    text: str | Annotated[float, Field(ge=0)] = ""
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
        ({"count": True}, "file: count: true; expected a valid integer"),
        (
            {"count": 1, "no": 1},
            "file: no: is an unknown key; expected one of count, name, cost, epochs, text, parts",
        ),
        (
            {"count": 1, "parts": [{"amount": 1, "no": 1}]},
            "file: parts[0].no: is an unknown key; expected one of amount",
        ),
        ({"count": 1, "name": {}}, "file: name: a table; expected a valid string"),
        (
            {"count": 1, "cost": "x"},
            "file: cost: 'x'; expected a valid number or a valid list",
        ),
        ({"count": 1, "epochs": 0}, "file: epochs: 0; expected 'auto' or greater than or equal"),
        ({"count": 1, "epochs": 1.5}, "file: epochs: 1.5; expected 'auto' or a valid integer"),
        (
            {"count": 1, "text": {}},
            "file: text: a table; expected a valid string or a valid number",
        ),
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


class Round(BaseModel):
    model_config = STRICT

    kind: str
    size: int = 1


class Ball(Round):
    kind: Literal["ball"] = "ball"
    # Called as a kind is: a location of pydantic's has both.
    ball: dict[str, int] = Field(default_factory=dict)


class Ring(Round):
    kind: Literal["ring"] = "ring"
    hole: int = 1


class Box(BaseModel):
    model_config = STRICT

    things: list[Annotated[Round, ByKind({"ball": Ball, "ring": Ring}, "ball")]]


def test_a_table_is_of_the_model_that_its_kind_says_or_of_the_default() -> None:
    made = check_schema(Box, {"things": [{"size": 2}, {"kind": "ring", "hole": 3}]}, "file")

    assert made.things == [Ball(size=2), Ring(hole=3)]


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        ({"kind": "cube"}, "things[0].kind: 'cube' is unknown; expected one of ball, ring"),
        ({"kind": 1}, "things[0].kind: 1 is unknown; expected one of ball, ring"),
        (
            {"hole": 1},
            "things[0].hole: is an unknown key; expected one of kind, size, ball (kind 'ball')",
        ),
        (
            {"kind": "ring", "ball": {}},
            "things[0].ball: is an unknown key; expected one of kind, size, hole (kind 'ring')",
        ),
        ({"kind": "ring", "hole": "x"}, "things[0].hole: 'x'; expected a valid integer"),
        ({"ball": {"a": "x"}}, "things[0].ball.a: 'x'; expected a valid integer"),
    ],
)
def test_what_is_wrong_with_a_table_of_a_kind_is_said_without_pydantics_tags(
    thing: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_schema(Box, {"things": [thing]}, "file")
    assert str(caught.value) == f"file: {expected}"
