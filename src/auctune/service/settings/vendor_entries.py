"""Vendors in auctune.toml: the house, and those that are reached over HTTP."""

from decimal import Decimal
from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.run.vendors import RepairParams
from auctune.schema import STRICT
from auctune.service.settings.fields import Amount, Count, Name, Positive, Rate, Variable
from auctune.service.settings.secret_source import check_one_source, read_secret
from auctune.service.vendors import HttpVendorParams, Secret
from auctune.service.vendors.params import MAX_POLL_SECONDS

# For a look at the URL alone: it is nobody's.
_NO_SECRET = Secret("-" * 32)


class HouseEntry(BaseModel):
    """[zones.house]: the vendor who works in a process of ours."""

    model_config = STRICT

    on: bool = True
    name: Name = "house"
    price: Amount = Decimal(0)
    price_per_row: Amount = Decimal(0)
    seconds: Rate = 0.0
    min_characters: Annotated[int, Field(ge=1)] = 2
    max_characters: Count = 100_000
    languages: list[str] = Field(default_factory=list)
    similarity: Annotated[float, Field(gt=0, le=1)] = 0.9

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.params()
        return self

    def params(self) -> RepairParams:
        """What it does, and for how much.

        Raises:
            InputError: if it cannot be told that.
        """
        own = self.model_dump(exclude={"on", "seconds"})
        return RepairParams(**{**own, "languages": tuple(own["languages"]), "delay": 0})


class VendorEntry(BaseModel):
    """[[zones.vendors]]: a vendor that is reached over HTTP."""

    model_config = STRICT

    name: Name
    url: str
    secret_variable: Variable | None = None
    secret_file: str | None = None
    answer_seconds: Positive = 30.0
    poll_seconds: Annotated[float, Field(gt=0, le=MAX_POLL_SECONDS)] = 10.0
    max_result_bytes: Count = 512 * 1024 * 1024

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_one_source(secret_variable=self.secret_variable, secret_file=self.secret_file)
        self._with(_NO_SECRET)
        return self

    def params(self, place: str) -> HttpVendorParams:
        """What the market has to know of it, its secret included.

        Args:
            place: of this table, for errors.

        Raises:
            InputError: if the secret is not where it should be, or too short.
        """
        text = read_secret(place, self.secret_variable, self.secret_file)
        return self._with(Secret(text, f"{place}: the secret"))

    def _with(self, secret: Secret) -> HttpVendorParams:
        return HttpVendorParams(
            self.name,
            self.url,
            secret,
            answer_seconds=self.answer_seconds,
            poll_seconds=self.poll_seconds,
            max_result_bytes=self.max_result_bytes,
        )


def check_names(house: HouseEntry, vendors: list[VendorEntry]) -> None:
    """That no two vendors of a zone have one name.

    Raises:
        InputError: naming the second one.
    """
    seen = {house.name} if house.on else set()
    for index, vendor in enumerate(vendors):
        if vendor.name in seen:
            raise InputError(f"vendors[{index}].name", f"{vendor.name!r} is twice", "unique names")
        seen.add(vendor.name)
