"""Types of fields that several tables of auctune.toml share."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from auctune.domain import parse_money

MAX_NUMBER = 10**9

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
ClusterAddress = Annotated[str, StringConstraints(pattern=r"^[^\s/:]+:[0-9]{1,5}$")]
Resource = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")]


def _resolve(path: str, info: ValidationInfo) -> str:
    return path if info.context is None else str(settings_folder(info.context) / path)


def settings_folder(context: object) -> Path:
    """Return the folder of the settings file from a validation context; without one, `.`."""
    assert context is None or isinstance(context, Path)
    return context or Path()


RelativePath = Annotated[str, AfterValidator(_resolve)]
"""A path that starts from the folder of the settings file, which is the validation context."""
