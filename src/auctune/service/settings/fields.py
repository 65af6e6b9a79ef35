"""What several tables of auctune.toml hold alike."""

from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from auctune.domain import parse_money

MOST = 10**9
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Positive = Annotated[float, Field(gt=0, le=MOST)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Rate = Annotated[float, Field(ge=0, le=MOST)]
